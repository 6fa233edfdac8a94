# limit: 150
# fio writes, then reads back with checksums, at 4 KiB and 1 MiB, buffered and direct, several jobs.
mnt rw /mnt/a || bad "mount"
rm -rf /export/rw/fio; mkdir /mnt/a/fio
run() { # NAME BS SIZE MORE...
  local n=$1 bs=$2 size=$3; shift 3
  check "fio --verify $n" t 60 fio --name="$n" --directory=/mnt/a/fio --bs="$bs" --size="$size" --verify=crc32c --verify_fatal=1 --do_verify=1 --fallocate=none --group_reporting --minimal "$@"
}
run rand4k-direct 4k 12m --rw=randwrite --direct=1 --ioengine=libaio --iodepth=32 --numjobs=2
run seq1m-direct 1m 96m --rw=write --direct=1 --ioengine=libaio --iodepth=8
run rand4k-buffered 4k 12m --rw=randwrite --direct=0 --ioengine=psync --numjobs=2 --fsync=64
run seq1m-buffered 1m 96m --rw=write --direct=0 --ioengine=psync --end_fsync=1
run mixed-sizes 4k-256k 24m --rw=randwrite --bsrange=4k-256k --direct=1 --ioengine=libaio --iodepth=16
run readwrite 16k 16m --rw=randrw --direct=1 --ioengine=libaio --iodepth=16
drop_caches
check "the files are the same when the server's copy is read" bash -c 'for f in /mnt/a/fio/*; do cmp "$f" "/export/rw/fio/${f##*/}" || exit 1; done'
rm -rf /mnt/a/fio
