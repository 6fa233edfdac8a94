# limit: 90
# Who may mount what, read-only exports, and what a version 4 client is told.
check "the list of exports" bash -c "timeout $((20*SLOW)) showmount -e $SRV --no-headers | grep -q /export/mixed"
check "mount read-write" mnt rw /mnt/a
check "mount read-only export" mnt ro /mnt/b
gives "can be read" content cat /mnt/b/file
deny "no new file" touch /mnt/b/new
deny "no write" bash -c 'echo x >>/mnt/b/file'
deny "no truncation" truncate -s 0 /mnt/b/file
deny "no chmod" chmod 600 /mnt/b/file
deny "no rename" mv /mnt/b/file /mnt/b/other
deny "no removal" rm -f /mnt/b/file
deny "no folder" mkdir /mnt/b/d
gives "untouched" content cat /export/ro/file
gives "the error is read-only" "Read-only file system" bash -c "LC_ALL=C touch /mnt/b/new 2>&1 | sed 's/.*: //'"
umount /mnt/b
check "a rule by address: this client" mnt mixed /mnt/b
check "may write" touch /mnt/b/from-c1
check "the other client" mnt_on c2 mixed /mnt/b
check "may read" on c2 ls /mnt/b/from-c1
deny "may not write" on c2 touch /mnt/b/from-c2
deny "a folder that is not exported" mnt hidden /mnt/c
deny "a name that is not there" mnt nothing-here /mnt/c
deny "the folder above" bash -c ". /lab/lib.sh; timeout $((40*SLOW)) mount -t nfs -o $NFS_OPTS $SRV:/export/rw/../hidden /mnt/c"
check "a folder below an export" bash -c "mkdir -p /export/rw/below/x; . /lab/lib.sh; mnt rw/below /mnt/c && test -d /mnt/c/x"
umount /mnt/c
deny "version 4 only" timeout $((40*SLOW)) mount -t nfs -o vers=4.2,proto=tcp $SRV:/export/rw /mnt/c
check "no version named: falls back" timeout $((40*SLOW)) mount -t nfs -o proto=tcp $SRV:/export/rw /mnt/c
gives "to 3" 3 bash -c "grep ' /mnt/c ' /proc/self/mounts | sed 's/.*vers=\([0-9.]*\).*/\1/'"
umount /mnt/c
check "rpcinfo sees NFS, MOUNT, NLM" bash -c "o=\$(timeout $((20*SLOW)) rpcinfo -p $SRV); for p in 100003 100005 100021; do grep -q \" \$p \" <<<\"\$o\" || { echo \"\$o\"; exit 1; }; done"
