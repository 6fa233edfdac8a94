# limit: 120
# fcntl locks between two clients: conflict, sharing, waiting, waking, giving up, splitting, and the end of a process.
mnt rw /mnt/a || bad "mount"; mnt_on c2 rw /mnt/a || bad "mount on c2"
rm -f /export/rw/lock; touch /export/rw/lock; chmod 666 /export/rw/lock; F=/mnt/a/lock; rm -f $L/go*
H="python3 /lab/helper.py lock $F"
# one STEPS...: on this client; two STEPS...: on the other. Each opens, acts, and drops everything at its end.
one() { t 60 $H "$@" | tr '\n' ' ' | sed 's/ $//'; }
two() { on c2 timeout -k 2 $((60*SLOW)) $H "$@" | tr '\n' ' ' | sed 's/ $//'; }
# held GO STEPS...: the same in the background, holding until the file GO exists
held() { local g=$1; shift; rm -f "$g" "$g.up"; t 90 $H "$@" say up hold "$g" >"$g.up" & for i in $(seq 200); do grep -q up "$g.up" 2>/dev/null && return; sleep 0.05; done; bad "no lock: $(cat "$g.up")"; }
gives "a free lock" "ok ok" one ex 0-100 un 0-100
held $L/go ex 0-100
gives "an exclusive lock keeps the other client out" busy two ex 50-60
gives "shared as well" busy two sh 99-100
gives "next to it is free" ok two ex 100-200
gives "waiting is given up by a signal" cancelled two wait-ex 0-10 2
( two wait-ex 0-10 30 >$L/waiter ) & w=$!; sleep $((1+SLOW)); touch $L/go; wait $w
gives "the waiter gets it when it is free" waited cat $L/waiter
sleep 0.3
gives "nobody kept anything (the one given up neither)" ok one ex 0-
held $L/go sh 0-100
gives "shared locks are shared" ok two sh 0-100
gives "but keep writers out" busy two ex 0-1
touch $L/go; sleep 0.5
held $L/go ex 0-300 un 100-200
gives "the middle was unlocked" ok two ex 100-200
gives "the left part is still locked" busy two ex 99-150
gives "and the right part" busy two ex 150-201
touch $L/go; sleep 0.5
held $L/go sh 0-100 ex 0-100
gives "an upgrade counts" busy two sh 0-10
touch $L/go; sleep 0.5
held $L/go ex 0-100 sh 0-100
gives "a downgrade too" ok two sh 0-10
touch $L/go; sleep 0.5
gives "a lock to the end of the file, beyond 4 GiB" ok one ex 5000000000-
held $L/go ex 5000000000-5000000100
gives "64-bit ranges conflict" busy two ex 5000000050-5000000060
gives "and do not where they must not" ok two ex 705032704-705032804
touch $L/go; sleep 0.5
held $L/go ex 0-0
p=$(pgrep -f "^python3 /lab/helper.py lock $F ex 0-0" | head -1); kill -9 "$p"; sleep 0.5
gives "a killed process keeps no lock" ok two ex 0-10
( two wait-ex 0-10 2 >$L/w1; ) ; gives "free again" at-once cat $L/w1
held $L/go ex 0-10
( two wait-ex 0-10 30 >$L/w1 ) & a=$!; ( two wait-ex 0-10 30 >$L/w2 ) & b=$!; sleep $((1+SLOW)); touch $L/go; wait $a $b
same "two waiters both get it, one after the other" "$(cat $L/w1) $(cat $L/w2)" "waited waited"
same "flock works over the mount too" "$(t 20 flock -n $F -c 'echo yes')" yes
