# What every scenario can use. Loaded in the guest's root namespaces by driver.sh, and in client c1's by each scenario.
#
# Three network namespaces on one bridge, each with its own hostname, /run and /var/lib/nfs, so that two real clients
# (each with rpcbind and statd) and one server share a kernel: srv 10.77.1.1 and 10.77.2.1, c1 10.77.1.2, c2 10.77.2.2. Each
# client reaches the server by an address of its own: the kernel keeps the lock waiters of all network namespaces in one
# list and tells them apart by server address, file and a number that both clients count from 0, so that a grant for one
# could wake the other.
SERVER=${SERVER:-headgate}
L=/tmp/lab                      # shared by all the namespaces
SRV=$(cat /run/server-address 2>/dev/null || echo 10.77.1.1)
NFS_OPTS=vers=3,proto=tcp,hard,nosharecache,timeo=50,retrans=3
mkdir -p $L
# How much slower than an idle machine this one is: driver.sh finds out, and every limit grows with it.
export SLOW=$(cat $L/slow 2>/dev/null || echo 1)

# on NAME COMMAND...: in that machine's namespaces.
on() { local p; p=$(cat "$L/$1.ns") || return 99; shift; nsenter -t "$p" -m -u -n -- "$@"; }

net_up() {
  local n p a s
  modprobe -a veth bridge nfs nfsv3
  ip link add br0 type bridge; ip link set br0 up
  grep -q '^tests:' /etc/passwd || { echo 'tests:x:2000:2000::/:/bin/sh' >>/etc/passwd; echo 'tests:x:2000:' >>/etc/group; }
  grep -q '^nogroup:' /etc/group || echo 'nogroup:x:65534:' >>/etc/group
  for n in srv c1 c2; do
    case $n in srv) a="10.77.1.1 10.77.2.1" s=10.77.1.1;; c1) a=10.77.1.2 s=10.77.1.1;; c2) a=10.77.2.2 s=10.77.2.1;; esac
    unshare -m -u -n --propagation private sleep infinity </dev/null >/dev/null 2>&1 & p=$!
    echo $p >$L/$n.ns
    until [ "$(readlink /proc/$p/ns/net)" != "$(readlink /proc/self/ns/net)" ] && [ "$(cat /proc/$p/comm)" = sleep ]; do sleep 0.02; done
    ip link add "v$n" type veth peer name eth0 netns "$p"; ip link set "v$n" master br0 up
    on $n bash -c "
      hostname $n; mount -t tmpfs -o mode=755 run /run; mkdir -p /run/lock /run/rpcbind /run/rpc_pipefs /mnt/a /mnt/b /mnt/c
      cp -a /var/lib/nfs /run/nfs-seed; mount -t tmpfs -o mode=755 nfs /var/lib/nfs; cp -a /run/nfs-seed/. /var/lib/nfs/
      mkdir -p /var/lib/nfs/sm /var/lib/nfs/sm.bak /var/lib/nfs/v4recovery; chown -R statd /var/lib/nfs/sm* 2>/dev/null
      mount -t sysfs s /sys; ip link set lo up; for i in $a; do ip addr add \$i/24 dev eth0; done; ip link set eth0 up
      echo $s >/run/server-address; printf '127.0.0.1 localhost\n$s srv\n10.77.1.2 c1\n10.77.2.2 c2\n' >/run/hosts; mount --bind /run/hosts /etc/hosts"
  done
  # The clients' own services: lock recovery needs statd, which registers with rpcbind.
  for n in c1 c2; do on $n rpcbind -w; on $n rpc.statd --no-notify; done
}

# ---- the store and the exports -------------------------------------------------------------------------------------
# Five exports, below one file system. Their rules are the same for both servers.
#   rw      everybody, root is root              squash  root becomes nobody (the default)
#   allsq   everybody becomes 1500:1500          ro      nothing may be changed
#   mixed   10.77.1.2 may write, 10.77.2.2 may only read, nobody else
exports_dirs() {
  mkdir -p /export/{rw,squash,allsq,ro,mixed,hidden}
  chmod 777 /export/{rw,squash,allsq,mixed}; chmod 755 /export/ro
  [ -e /export/ro/file ] || echo content >/export/ro/file
}

exports_knfsd() {
  local o=async,no_subtree_check,insecure
  printf '%s\n' "/export/rw *(rw,no_root_squash,$o)" "/export/squash *(rw,root_squash,$o)" \
    "/export/allsq *(rw,all_squash,anonuid=1500,anongid=1500,$o)" "/export/ro *(ro,no_root_squash,$o)" \
    "/export/mixed 10.77.1.2(rw,no_root_squash,$o) 10.77.2.2(ro,no_root_squash,$o)"
}

# The same rules. Spinning is short: the guest's processors are emulated, and the clients need them too.
exports_headgate() {
  cat <<'Y'
exports:
  - { name: /export/rw, directory: /export/rw, clients: [{ match: "*", access: rw, squash: no_root_squash, secure: false }] }
  - { name: /export/squash, directory: /export/squash, clients: [{ match: "*", access: rw, secure: false }] }
  - { name: /export/allsq, directory: /export/allsq, clients: [{ match: "*", access: rw, squash: all_squash, anonuid: 1500, anongid: 1500, secure: false }] }
  - { name: /export/ro, directory: /export/ro, clients: [{ match: "*", access: ro, squash: no_root_squash, secure: false }] }
  - name: /export/mixed
    directory: /export/mixed
    clients:
      - { match: 10.77.1.2, access: rw, squash: no_root_squash }
      - { match: 10.77.2.2, access: ro, squash: no_root_squash }
Y
}

headgate_config() {
  mkdir -p $L/state
  printf 'cores: { cpus: 0-1, spin: 20us }\nlisten: { nfs: ["10.77.1.1:2049", "10.77.2.1:2049"], portmap: embedded, metrics: "127.0.0.1:9049", control: %s/control.sock }\nidentity: { state: %s/state }\nlimits: { grace: 10s }\nobserve: { log: info }\n' $L $L
  exports_headgate
}

# ---- the server ----------------------------------------------------------------------------------------------------
server_start() {
  exports_dirs
  case $SERVER in
    knfsd) on srv bash -c '. /lab/lib.sh; knfsd_start';;
    headgate) headgate_start;;
    *) echo "SERVER=$SERVER?" >&2; return 1;;
  esac
}

# Ends the server as a crash does: no goodbye to anybody.
server_kill() {
  case $SERVER in
    knfsd) on srv bash -c 'rpc.nfsd 0; p=$(pidof rpc.mountd) && kill -9 $p; p=$(pidof rpc.statd) && kill -9 $p; true';;
    headgate) kill -9 "$(cat $L/server.pid)" 2>/dev/null; rm -f $L/server.pid;;
  esac
}

# Ends it in order.
server_stop() {
  case $SERVER in
    knfsd) server_kill;;
    headgate)
      local p i; p=$(cat $L/server.pid 2>/dev/null) || return 0
      kill -TERM "$p" 2>/dev/null
      for i in $(seq $((200*SLOW))); do kill -0 "$p" 2>/dev/null || { rm -f $L/server.pid; return 0; }; sleep 0.1; done
      echo "headgate did not end within 20 s of SIGTERM"; kill -9 "$p"; rm -f $L/server.pid; return 1;;
  esac
}

server_alive() {
  case $SERVER in
    knfsd) [ "$(on srv cat /proc/fs/nfsd/threads 2>/dev/null || echo 0)" != 0 ];;
    headgate) [ -e $L/server.pid ] && kill -0 "$(cat $L/server.pid)" 2>/dev/null;;
  esac
}

knfsd_start() { # in srv
  modprobe nfsd
  mountpoint -q /proc/fs/nfsd || mount -t nfsd n /proc/fs/nfsd
  [ -e /run/rpcbind.sock ] || rpcbind -w
  exports_knfsd >/etc/exports
  # Debian's default looks groups up at the server; the groups of the call are what is tested here.
  sed -i 's/^manage-gids.*//' /etc/nfs.conf
  [ ! -e $L/knfsd-was-up ] || rm -f /var/lib/nfs/etab /var/lib/nfs/rmtab
  exportfs -ra 2>/dev/null
  # Grace only after a crash: the first start has nobody to wait for.
  modprobe lockd; echo 10 >/proc/sys/fs/nfs/nlm_grace_period; echo 10 >/proc/fs/nfsd/nfsv4leasetime; echo 10 >/proc/fs/nfsd/nfsv4gracetime
  rpc.statd --no-notify
  rpc.nfsd -N 4 -N 4.1 -N 4.2 8 || return 1
  rpc.mountd -N 4
  [ -e $L/knfsd-was-up ] || { sleep 11; }
  # -f: again after a restart of the service, not of the machine
  [ ! -e $L/knfsd-was-up ] || sm-notify -f
  touch $L/knfsd-was-up
}

headgate_start() {
  local i
  headgate_config >$L/headgate.yaml
  mkdir -p $L/state
  on srv bash -c "ulimit -n 65536; ulimit -c 0; exec $HG serve --config $L/headgate.yaml" >>$L/headgate.log 2>&1 </dev/null &
  for i in $(seq $((150*SLOW))); do
    if (exec 3<>/dev/tcp/$SRV/2049) 2>/dev/null || on c1 bash -c "exec 3<>/dev/tcp/$SRV/2049" 2>/dev/null; then
      # nsenter runs the command in place, so its process id is the server's.
      on srv cat /proc/net/tcp >/dev/null; headgate_pid >$L/server.pid && return 0
    fi
    sleep 0.1
  done
  echo "headgate does not answer on port 2049; its log ends:"; tail -20 $L/headgate.log; return 1
}

headgate_pid() { local p c; for p in /proc/[0-9]*; do c=$(tr '\0' ' ' <$p/cmdline 2>/dev/null); case $c in "$HG serve "*) echo "${p#/proc/}"; return 0;; esac; done; return 1; }

# ---- mounts --------------------------------------------------------------------------------------------------------
# mnt EXPORT POINT [MORE OPTIONS]: in the machine that the caller is in.
mnt() { mkdir -p "$2"; t 40 mount -t nfs -o "$NFS_OPTS${3:+,$3}" "$SRV:/export/$1" "$2"; }
# mnt_on NAME EXPORT POINT [MORE OPTIONS]
mnt_on() { local n=$1; shift; on "$n" bash -c '. /lab/lib.sh; mnt "$@"' mnt "$@"; }
unmount_all() {
  local n m
  for n in c1 c2; do
    on $n bash -c 'tac /proc/self/mounts | while read -r d m t r; do case $t in nfs|nfs4) timeout $((20*SLOW)) umount "$m" 2>/dev/null || timeout $((20*SLOW)) umount -f -l "$m";; esac; done'
  done
}

# ---- judging -------------------------------------------------------------------------------------------------------
CHECKS=0; FAILS=0
ok() { CHECKS=$((CHECKS+1)); echo "    ok    $*"; }
bad() { CHECKS=$((CHECKS+1)); FAILS=$((FAILS+1)); echo "    FAIL  $*"; }
# check 'what' COMMAND...: right when the command succeeds.   deny 'what' COMMAND...: right when it fails (not by a time-out).
check() { local w=$1 o rc; shift; o=$("$@" 2>&1); rc=$?; if [ $rc = 0 ]; then ok "$w"; else bad "$w: exit code $rc: $(printf '%s' "$o" | tail -4 | tr '\n' '|')"; fi; }
deny() { local w=$1 o rc; shift; o=$("$@" 2>&1); rc=$?; if [ $rc = 0 ]; then bad "$w: was allowed"; elif [ $rc = 124 ] || [ $rc = 137 ]; then bad "$w: no answer in time"; else ok "$w"; fi; }
# same 'what' GOT WANTED
same() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: got '$2', wanted '$3'"; fi; }
# gives 'what' WANTED COMMAND...: right when the command's output is that.
gives() { local w=$1 v=$2 o; shift 2; o=$("$@" 2>&1); same "$w" "$o" "$v"; }
# as UID [GID[,GROUP...]] COMMAND...: with that identity and no capability.
as() { local u=$1 g=$2 x; shift 2; x=${g#*,}; [ "$x" != "$g" ] || x=; if [ -n "$x" ]; then setpriv --reuid "$u" --regid "${g%%,*}" --groups "$x" --bounding-set -all --inh-caps -all "$@"; else setpriv --reuid "$u" --regid "$g" --clear-groups --bounding-set -all --inh-caps -all "$@"; fi; }
# t SECONDS COMMAND...: with a limit.
t() { local s=$1; shift; timeout -k 2 $((s*SLOW)) "$@"; }
helper() { python3 /lab/helper.py "$@"; }
drop_caches() { sync; echo 3 >/proc/sys/vm/drop_caches; }
done_here() { [ "$FAILS" = 0 ] && [ "$CHECKS" -gt 0 ]; }
