# Runs scenarios one after the other in one boot:  SERVER=headgate|knfsd driver.sh NAME...
# One line for each: "PASS name 12 s (9 checks)" or "FAIL ...". The exit code is 0 when all passed.
. /lab/lib.sh
now() { local u; read -r u _ </proc/uptime; echo "${u%%.*}"; }
t0=$(date +%s%N); for i in {1..40}; do /bin/true; done
# 0.6 s on two idle cores.
SLOW=$(( ($(date +%s%N) - t0) / 600000000 + 1 )); [ $SLOW -le 10 ] || SLOW=10; export SLOW; echo $SLOW >$L/slow
net_up
echo "  the machine is up after $(cut -d' ' -f1 /proc/uptime) s, server $SERVER, limits times $SLOW"
pass=0; fail=0; failed=
for s in "$@"; do
  f=/lab/scenarios/$s.sh
  if [ ! -e "$f" ]; then echo "FAIL $s: no such scenario"; fail=$((fail+1)); failed="$failed $s"; continue; fi
  limit=$(sed -n 's/^# limit: \([0-9]*\).*/\1/p' "$f"); limit=$((${limit:-60}*SLOW))
  t0=$(now); why=
  if ! server_alive && ! server_start; then why="the server did not start"; rc=1; : >$L/out; else
    echo "  == $s"
    on c1 timeout -k 5 "$limit" bash -c ". /lab/lib.sh; CLEANUP=; . $f; \$CLEANUP; echo \"\$CHECKS \$FAILS\" >$L/counts; done_here" >$L/out 2>&1 </dev/null; rc=$?
    [ $rc != 124 ] && [ $rc != 137 ] || why="not done within $limit s"
    [ $rc = 0 ] || server_alive || why="${why:+$why; }the server is gone"
    cat $L/out
  fi
  read -r n k <$L/counts 2>/dev/null || { n=$(grep -c '^    ok\|^    FAIL' $L/out); k='?'; }
  rm -f $L/counts
  if [ $rc = 0 ]; then pass=$((pass+1)); echo "PASS $s $(( $(now)-t0 )) s ($n checks)"
  else
    fail=$((fail+1)); failed="$failed $s"; echo "FAIL $s $(( $(now)-t0 )) s ($k of $n checks failed)${why:+ $why}"
    [ ! -s $L/headgate.log ] || { echo "  the server's log ends:"; grep -v '^  \|^$\|^serving\|^cores' $L/headgate.log | tail -15 | cut -c1-300 | sed 's/^/    | /'; }
    dmesg | tail -5 | sed 's/^/    dmesg| /'
  fi
  # What a failed scenario left behind must not spoil the next.
  for p in $(cat $L/kill 2>/dev/null); do kill -9 "$p" 2>/dev/null; done; rm -f $L/kill
  unmount_all
done
server_stop || { echo "FAIL stop: the server did not end in order"; fail=$((fail+1)); failed="$failed stop"; }
cp $L/headgate.log /out/ 2>/dev/null
echo "  lab ($SERVER): $pass passed, $fail failed${failed:+:$failed}"
[ $fail = 0 ]
