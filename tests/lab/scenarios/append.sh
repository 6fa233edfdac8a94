# limit: 120
# O_APPEND, O_EXCL and counters from several processes on two clients.
mnt rw /mnt/a || bad "mount"; mnt_on c2 rw /mnt/a || bad "mount on c2"
rm -rf /export/rw/app; mkdir /export/rw/app; D=/mnt/a/app
# Both wait for one file, so that they really meet.
go() { sleep $((1+SLOW)); touch $L/xgo; }
rm -f $L/xgo; ( t 60 python3 /lab/helper.py append $D/one p1 300 no $L/xgo & t 60 python3 /lab/helper.py append $D/one p2 300 no $L/xgo & go; wait )
check "two processes of one client append" helper append_judge /export/rw/app/one 300 p1 p2
rm -f $L/xgo; ( t 60 python3 /lab/helper.py append $D/two p1 100 locked $L/xgo & on c2 timeout -k 2 $((60*SLOW)) python3 /lab/helper.py append $D/two p2 100 locked $L/xgo & go; wait )
check "processes of two clients append under a lock" helper append_judge /export/rw/app/two 100 p1 p2
mkdir $D/x
a=$L/won1; b=$L/won2
rm -f $L/xgo; ( t 60 python3 /lab/helper.py exclusive $D/x 300 $L/xgo >$a & on c2 timeout -k 2 $((60*SLOW)) python3 /lab/helper.py exclusive $D/x 300 $L/xgo >$b & go; wait )
same "each O_EXCL name has one winner ($(cat $a) and $(cat $b))" $(( $(cat $a) + $(cat $b) )) 300
same "and is there" "$(ls /export/rw/app/x | wc -l)" 300
same "with the mode that was asked for" "$(find /export/rw/app/x -type f ! -perm 600 | wc -l)" 0
rm -f $L/xgo; ( t 60 python3 /lab/helper.py count $D/n a 60 $L/xgo & on c2 timeout -k 2 $((60*SLOW)) python3 /lab/helper.py count $D/n b 60 $L/xgo & go; wait )
gives "no update is lost under locks of two clients" 120 bash -c "tr -d ' ' <$D/n"
