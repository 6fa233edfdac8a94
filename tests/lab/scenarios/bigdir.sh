# limit: 240
# 100,000 files in one folder are listed while others come and go: each permanent name exactly once, every time.
N=100000
rm -rf /export/rw/big; mkdir -m 777 /export/rw/big
check "$N files are made" t 100 python3 /lab/helper.py touch_many /export/rw/big keep $N
mnt rw /mnt/a || bad "mount"; mnt_on c2 rw /mnt/a || bad "mount on c2"
rm -f $L/stop
check "listed at rest" t 90 python3 /lab/helper.py list_once /mnt/a/big keep $N
on c2 timeout -k 2 $((200*SLOW)) python3 /lab/helper.py churn /mnt/a/big $L/stop >$L/churn & echo $! >>$L/kill; c=$!
drop_caches; check "listed while files come and go" t 90 python3 /lab/helper.py list_once /mnt/a/big keep $N
umount /mnt/a; mnt rw /mnt/a nordirplus
check "the same by plain READDIR" t 90 python3 /lab/helper.py list_once /mnt/a/big keep $N
touch $L/stop; wait $c
check "the other client made and removed $(cat $L/churn) meanwhile" test "$(cat $L/churn)" -gt 50
gives "the number of entries on the server" ok bash -c "[ \$(ls -f /export/rw/big | grep -c ^keep) = $N ] && echo ok"
rm -rf /export/rw/big
