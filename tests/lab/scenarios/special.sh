# limit: 60
# Special files.
mnt rw /mnt/a || bad "mount"
rm -rf /export/rw/sp; mkdir /mnt/a/sp; cd /mnt/a/sp || bad "cd"
check "fifo" mkfifo -m 640 fifo
check "character device" mknod null c 1 3
check "block device with large numbers" mknod blk b 259 70000
check "socket" python3 -c 'import os, stat; os.mknod("sock", stat.S_IFSOCK | 0o600)'
cd /; umount /mnt/a; mnt rw /mnt/a; cd /mnt/a/sp || bad "cd again"
gives "types, modes and numbers come back" "blk block special file 103:11170 fifo fifo 0:0 null character special file 1:3 sock socket 0:0" bash -c 'stat -c "%n %F %t:%T" * | tr "\n" " " | sed "s/ $//"'
same "the server has the same" "$(stat -c '%n %F %t:%T %a' ./*)" "$(cd /export/rw/sp && stat -c '%n %F %t:%T %a' ./*)"
check "a fifo works between processes" bash -c 'timeout $((10*SLOW)) bash -c "echo through >fifo" & [ "$(timeout $((10*SLOW)) cat fifo)" = through ]'
check "a device works" bash -c 'echo x >null'
deny "an ordinary user makes no device" bash -c '. /lab/lib.sh; chmod 777 /mnt/a/sp; as 1000 1000 mknod /mnt/a/sp/dev c 1 3'
check "removed" rm fifo null blk sock
cd /; rmdir /mnt/a/sp || bad "rmdir"
