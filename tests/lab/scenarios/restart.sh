# limit: 180
# The server is killed under load, several times: the clients go on, and every acknowledged byte is there.
mnt rw /mnt/a || bad "mount"; mnt_on c2 rw /mnt/a || bad "mount on c2"
rm -rf /export/rw/rs; mkdir -m 777 /export/rw/rs; rm -f $L/stop; D=/mnt/a/rs
for w in w1 w2; do t 150 python3 /lab/helper.py acked_writer $D $w $L/$w.j $L/stop >$L/$w.out 2>&1 & echo $! >>$L/kill; done
on c2 timeout -k 2 $((150*SLOW)) python3 /lab/helper.py acked_writer $D w3 $L/w3.j $L/stop >$L/w3.out 2>&1 & echo $! >>$L/kill
dd if=/dev/urandom of=$L/rnd bs=1M count=64 status=none
t 150 bash -c "cp $L/rnd $D/big && sync $D/big && mv $D/big $D/copied" & c=$!
for k in 1 2 3; do
  sleep $((k+1)); n=$(cat $L/w?.j | wc -l); server_kill; sleep 1
  check "started again ($k)" server_start
  for i in $(seq 400); do [ "$(cat $L/w?.j | wc -l)" -gt $((n+30)) ] && break; sleep 0.1; done
  m=$(cat $L/w?.j | wc -l); if [ "$m" -gt $((n+30)) ]; then ok "the clients went on ($n, then $m)"; else bad "the clients stand still: $n, then $m"; fi
done
touch $L/stop; wait $c || bad "the copy failed"
for i in $(seq 300); do pgrep -f acked_writer >/dev/null || break; sleep 0.1; done
for w in w1 w2 w3; do
  check "$w: $(tail -1 $L/$w.out) blocks written without an error" grep -qx '[0-9]*' $L/$w.out
  check "$w: each acknowledged one is there" helper acked_judge /export/rw/rs $w $L/$w.j
done
check "the large copy is whole" cmp $L/rnd /export/rw/rs/copied
rm -rf /export/rw/rs $L/rnd
