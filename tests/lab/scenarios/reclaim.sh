# limit: 150
# A server that was killed and started again: the holder's lock is reclaimed, nobody else gets it meanwhile.
mnt rw /mnt/a || bad "mount"; mnt_on c2 rw /mnt/a || bad "mount on c2"
rm -f /export/rw/rlock; touch /export/rw/rlock; chmod 666 /export/rw/rlock; F=/mnt/a/rlock; rm -f $L/rgo $L/rup
H="python3 /lab/helper.py lock $F"
t 140 $H ex 0-100 say up hold $L/rgo >$L/rup & echo $! >>$L/kill
for i in $(seq 100); do grep -q up $L/rup && break; sleep 0.1; done
same "the first client has the lock" "$(on c2 timeout -k 2 $((20*SLOW)) $H ex 0-100)" busy
server_kill; sleep 1
check "the server starts again" server_start
same "the lock was reclaimed: the other client waits in vain" "$(on c2 timeout -k 2 $((60*SLOW)) $H wait-ex 0-100 20)" cancelled
same "after the grace period too" "$(on c2 timeout -k 2 $((60*SLOW)) $H ex 0-100)" busy
same "another range is free" "$(on c2 timeout -k 2 $((60*SLOW)) $H wait-ex 200-300 40 | sed 's/waited/got/;s/at-once/got/')" got
touch $L/rgo; sleep 1
same "given back, the other client gets it" "$(on c2 timeout -k 2 $((60*SLOW)) $H wait-ex 0-100 30 | sed 's/waited/got/;s/at-once/got/')" got
