# limit: 90
# A client that restarts says so, and its locks are released; another machine cannot say it in its name.
mnt rw /mnt/a || bad "mount"; mnt_on c2 rw /mnt/a || bad "mount on c2"
rm -f /export/rw/nlock; touch /export/rw/nlock; chmod 666 /export/rw/nlock; F=/mnt/a/nlock; rm -f $L/ngo $L/nup
H="python3 /lab/helper.py lock $F"
on c2 timeout -k 2 $((90*SLOW)) $H ex 0-100 say up hold $L/ngo >$L/nup & echo $! >>$L/kill
for i in $(seq 100); do grep -q up $L/nup && break; sleep 0.1; done
gives "the other client has the lock" busy t 20 $H ex 0-100
gives "this client has one too, so that its monitor knows the server" ok t 20 $H ex 200-300
# -f: again, although this machine did not restart.
for name in c2 10.77.0.3; do t 20 sm-notify -f -m 1 -v "$name" >/dev/null 2>&1; done
sleep 3
gives "a notice in the other's name changes nothing" busy t 20 $H ex 0-100
on c2 timeout -k 2 $((20*SLOW)) sm-notify -f -m 1 >/dev/null 2>&1
gives "its own notice releases the lock" ok t 20 $H ex 0-100
touch $L/ngo
