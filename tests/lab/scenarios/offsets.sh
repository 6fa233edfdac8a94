# limit: 90
# Holes and offsets past 4 GiB, truncation, and times.
mnt rw /mnt/a || bad "mount"
rm -rf /export/rw/off; mkdir /mnt/a/off; F=/mnt/a/off/sparse
check "marks up to 5 GiB are written" t 40 python3 /lab/helper.py sparse $F
umount /mnt/a; mnt rw /mnt/a
check "and read back, holes as zeros" t 40 python3 /lab/helper.py sparse_judge $F
check "the same on the server" t 40 python3 /lab/helper.py sparse_judge /export/rw/off/sparse
check "truncated to 4 GiB + 1" truncate -s 4294967297 $F
gives "size on the server" 4294967297 stat -c %s /export/rw/off/sparse
check "extended to 1 TiB" truncate -s 1T $F
gives "size on the server" 1099511627776 stat -c %s /export/rw/off/sparse
check "truncated to 0" truncate -s 0 $F
gives "empty" 0 stat -c %s /export/rw/off/sparse
printf abcdef >$F; truncate -s 3 $F; truncate -s 6 $F
gives "what a truncation cut does not come back" "616263000000" bash -c "od -An -tx1 $F | tr -d ' \n'"
check "times with nanoseconds" touch -d '2031-05-06 07:08:09.123456789 UTC' $F
gives "are kept" "$(date -d '2031-05-06 07:08:09 UTC' +%s).123456789" bash -c "stat -c %.9Y /export/rw/off/sparse"
check "times before 1970 or past 2038 (what 32 bits hold)" touch -d '2100-01-01 00:00:00 UTC' $F
gives "are kept too" 4102444800 stat -c %Y $F
dd if=/dev/urandom of=$L/rnd bs=1M count=20 status=none
check "direct writes of 1 MiB" t 40 dd if=$L/rnd of=$F bs=1M oflag=direct conv=fsync status=none
umount /mnt/a; mnt rw /mnt/a
check "direct reads of 64 KiB" bash -c "timeout $((40*SLOW)) dd if=$F bs=64k iflag=direct status=none | cmp - $L/rnd"
check "free space is reported" bash -c "[ \$(stat -f -c %b /mnt/a) -gt 1000 ] && [ \$(stat -f -c %c /mnt/a) -gt 1000 ]"
rm -f $L/rnd $F
