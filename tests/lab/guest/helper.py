"""Small programs that the scenarios need, for Debian's python3-minimal: helper.py NAME [ARGUMENT...]."""
import errno, fcntl, os, signal, sys, time


def lock_cmd(path, *steps):
    """Steps on one open file, in order; each prints its outcome at once.
    ex|sh A-B  lock without waiting      wait-ex|wait-sh A-B [SECONDS]  lock, waiting; an alarm cancels it
    un A-B     unlock                    hold FILE    stay until FILE exists
    say TEXT   print                     write OFFSET TEXT"""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    i = 0

    def arg():
        nonlocal i
        i += 1
        return steps[i - 1]

    def rng(s):
        a, b = s.split("-")
        return int(a), (int(b) - int(a) if b else 0)

    class Alarm(Exception):
        pass

    def on_alarm(*_):
        raise Alarm

    signal.signal(signal.SIGALRM, on_alarm)
    while i < len(steps):
        what = arg()
        if what == "say":
            print(arg(), flush=True)
        elif what == "hold":
            f = arg()
            end = time.time() + 100
            while not os.path.exists(f) and time.time() < end:
                time.sleep(0.05)
        elif what == "write":
            off = int(arg())
            os.pwrite(fd, arg().encode(), off)
            os.fsync(fd)
        else:
            start, length = rng(arg())
            kind = fcntl.LOCK_UN if what == "un" else fcntl.LOCK_EX if what.endswith("ex") else fcntl.LOCK_SH
            try:
                if what.startswith("wait"):
                    limit = float(arg())
                    signal.setitimer(signal.ITIMER_REAL, limit)
                    t0 = time.time()
                    fcntl.lockf(fd, kind, length, start)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    print("waited" if time.time() - t0 > 0.3 else "at-once", flush=True)
                else:
                    fcntl.lockf(fd, kind | (0 if what == "un" else fcntl.LOCK_NB), length, start)
                    print("ok", flush=True)
            except Alarm:
                print("cancelled", flush=True)
            except OSError as e:
                print("busy" if e.errno in (errno.EAGAIN, errno.EACCES) else errno.errorcode[e.errno], flush=True)


def wait_for(go):
    """Starts several processes at one moment: each waits until the file `go` exists."""
    while go and not os.path.exists(go):
        time.sleep(0.01)


def count(path, label, n, go):
    """Adds 1 to the number in a file n times, under a lock: lost updates show in the sum."""
    wait_for(go)
    for _ in range(int(n)):
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        v = int(os.pread(fd, 20, 0) or b"0")
        os.pwrite(fd, b"%-12d" % (v + 1), 0)
        fcntl.lockf(fd, fcntl.LOCK_UN)
        os.close(fd)


def append(path, label, n, locked="no", go=""):
    """Appends n lines of 100 bytes with O_APPEND; locked: each one under a lock (two clients need that)."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    wait_for(go)
    for i in range(int(n)):
        if locked == "locked":
            fcntl.lockf(fd, fcntl.LOCK_EX)
        os.write(fd, (("%s %d " % (label, i)).ljust(99, ".") + "\n").encode())
        if locked == "locked":
            fcntl.lockf(fd, fcntl.LOCK_UN)
    os.close(fd)


def append_judge(path, n, *labels):
    """Every line of every writer is there once, whole and in its writer's order."""
    nxt = dict.fromkeys(labels, 0)
    with open(path, "rb") as f:
        for line in f:
            if len(line) != 100:
                sys.exit("a torn line: %r" % line[:60])
            l, k = line.split()[:2]
            if nxt[l.decode()] != int(k):
                sys.exit("%s: line %s where %d was to come" % (l.decode(), k.decode(), nxt[l.decode()]))
            nxt[l.decode()] += 1
    bad = {l: c for l, c in nxt.items() if c != int(n)}
    if bad:
        sys.exit("lines missing: %r" % bad)


def exclusive(folder, n, go):
    """Tries to create n names with O_EXCL once the file `go` exists; prints how many it got."""
    won = 0
    os.listdir(folder)
    while not os.path.exists(go):
        pass
    for i in range(int(n)):
        try:
            os.close(os.open("%s/x%d" % (folder, i), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            won += 1
        except FileExistsError:
            pass
    print(won)


def touch_many(folder, prefix, n):
    for i in range(int(n)):
        os.close(os.open("%s/%s%06d" % (folder, prefix, i), os.O_CREAT | os.O_WRONLY, 0o644))


def churn(folder, stop):
    """Creates, renames and removes passing names until the file `stop` exists; prints how many."""
    n = 0
    while not os.path.exists(stop):
        a, b = "%s/come%d" % (folder, n % 50), "%s/go%d" % (folder, n % 50)
        try:
            os.close(os.open(a, os.O_CREAT | os.O_WRONLY, 0o644))
            os.rename(a, b)
            if n % 2:
                os.unlink(b)
        except FileNotFoundError:
            pass
        n += 1
    print(n)


def list_once(folder, prefix, n):
    """Every permanent name exactly once, nothing but those and passing ones."""
    seen = {}
    with os.scandir(folder) as d:
        for e in d:
            if e.name.startswith(prefix):
                seen[e.name] = seen.get(e.name, 0) + 1
            elif not e.name.startswith(("come", "go", ".nfs")):
                sys.exit("a strange name: %r" % e.name)
    twice = [k for k, v in seen.items() if v != 1]
    gone = [i for i in range(int(n)) if "%s%06d" % (prefix, i) not in seen]
    if twice or gone or len(seen) != int(n):
        sys.exit("%d names, %d more than once %r, %d missing %r" % (len(seen), len(twice), twice[:3], len(gone), gone[:3]))


def pattern(label, i, size):
    return (("%s %d " % (label, i)).encode() * (size // 4 + 1))[:size]


def acked_writer(folder, label, journal, stop):
    """Writes blocks of changing size and fsyncs; what was acknowledged is noted in the journal (outside of the mount)
    only afterwards. Also creates and renames: a rename that was answered has happened."""
    fd = os.open("%s/%s" % (folder, label), os.O_RDWR | os.O_CREAT, 0o644)
    j = open(journal, "w")
    i = off = 0
    while not os.path.exists(stop):
        size = (1, 100, 4096, 5000, 65536, 300000)[i % 6]
        data = pattern(label, i, size)
        n = os.pwrite(fd, data, off)
        assert n == size
        os.fsync(fd)
        j.write("w %d %d %d\n" % (i, off, size))
        if i % 5 == 0:
            tmp = "%s/%s.tmp" % (folder, label)
            with open(tmp, "w") as f:
                f.write("%d\n" % i)
            at = "%s/%s.at" % (folder, label)
            try:
                os.rename(tmp, at)
            except FileNotFoundError:
                # The one answer that NFSv3 cannot spare a client: the rename was done, the server was killed before it answered, and
                # the new one executes the repetition (RFC 1813 s4.5: the reply cache does not survive). It must have been done.
                if int(open(at).read()) != i:
                    raise
            j.write("r %d\n" % i)
        j.flush()
        off += size
        i += 1
    print(i)


def acked_judge(folder, label, journal):
    f = open("%s/%s" % (folder, label), "rb")
    n, renamed = 0, -1
    for line in open(journal):
        p = line.split()
        if p[0] == "r":
            renamed = int(p[1])
            continue
        i, off, size = map(int, p[1:])
        f.seek(off)
        if f.read(size) != pattern(label, i, size):
            sys.exit("block %d at %d, %d bytes, acknowledged, is not there" % (i, off, size))
        n += 1
    at = int(open("%s/%s.at" % (folder, label)).read())
    if at < renamed:
        sys.exit("the rename of %d was answered, the file says %d" % (renamed, at))
    if n < 20:
        sys.exit("only %d blocks: the test did not test" % n)


def special(folder):
    """Names that are bytes, not text; each kind of object."""
    names = [b"\xff\xfe bad utf-8 \x80", b"new\nline", b"tab\t", b" lead and trail ", b"\xc3\xa9", b"e\xcc\x81", b"-rf", b"back\\slash",
             b"colon:", b"*?<>|\"", b"con", b"dot.", bytes(range(1, 47)) + bytes(range(48, 128)), b"\xe2\x98\x83" * 85, b"n" * 255]
    b = os.fsencode(folder)
    for i, n in enumerate(names):
        with open(b + b"/" + n, "wb") as f:
            f.write(b"%d" % i)
    got = sorted(os.listdir(b))
    if got != sorted(names):
        sys.exit("listed %r" % (set(got) ^ set(names)))
    for i, n in enumerate(names):
        if open(b + b"/" + n, "rb").read() != b"%d" % i:
            sys.exit("content of %r" % n)
    for bad, want in ((b"n" * 256, errno.ENAMETOOLONG), (b"m" * 4000, errno.ENAMETOOLONG)):
        try:
            open(b + b"/" + bad, "wb")
            sys.exit("a name of %d bytes was taken" % len(bad))
        except OSError as e:
            if e.errno != want:
                sys.exit("a name of %d bytes: %s" % (len(bad), e))
    for n in names:
        os.unlink(b + b"/" + n)
    if os.listdir(b):
        sys.exit("left over")


def sparse(path):
    """Holes read as zeros; offsets past 4 GiB are 64-bit all the way."""
    gib = 1 << 30
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    marks = [0, 4096 * 3 + 1, 2 * gib - 3, 2 * gib + 50000, 4 * gib - 5, 4 * gib + 50001, 5 * gib + 12345]
    for m in marks:
        os.pwrite(fd, b"mark %d" % m, m)
    os.fsync(fd)
    os.close(fd)


def sparse_judge(path):
    gib = 1 << 30
    fd = os.open(path, os.O_RDONLY)
    marks = [0, 4096 * 3 + 1, 2 * gib - 3, 2 * gib + 50000, 4 * gib - 5, 4 * gib + 50001, 5 * gib + 12345]
    for m in marks:
        w = b"mark %d" % m
        if os.pread(fd, len(w), m) != w:
            sys.exit("mark at %d" % m)
        if os.pread(fd, 4096, m + len(w) + 4096).strip(b"\0") and m + len(w) + 4096 < marks[-1]:
            sys.exit("the hole after %d is not empty" % m)
    end = marks[-1] + len(b"mark %d" % marks[-1])
    if os.fstat(fd).st_size != end:
        sys.exit("size %d, not %d" % (os.fstat(fd).st_size, end))
    if os.fstat(fd).st_blocks * 512 > 10 << 20:
        sys.exit("not sparse: %d blocks" % os.fstat(fd).st_blocks)
    if os.pread(fd, 100, end) or os.pread(fd, 100, end + 5 * gib):
        sys.exit("bytes past the end")


def open_over(folder):
    """A file that another takes the place of, or that is removed, stays readable and writable for who has it open."""
    a, b = folder + "/a", folder + "/b"
    open(a, "w").write("old")
    open(b, "w").write("new")
    fd = os.open(a, os.O_RDWR)
    os.rename(b, a)
    if os.pread(fd, 10, 0) != b"old":
        sys.exit("rename-over-open: the open file changed")
    if open(a).read() != "new":
        sys.exit("rename-over-open: the name does not lead to the new file")
    os.pwrite(fd, b"OLD", 0)
    os.fsync(fd)
    if os.pread(fd, 10, 0) != b"OLD" or open(a).read() != "new":
        sys.exit("rename-over-open: writing to the open file")
    os.close(fd)
    fd = os.open(a, os.O_RDWR)
    os.unlink(a)
    if os.path.exists(a):
        sys.exit("unlink-while-open: the name is still there")
    os.pwrite(fd, b"still here", 0)
    os.fsync(fd)
    if os.pread(fd, 20, 0) != b"still here":
        sys.exit("unlink-while-open: the data is gone")
    hidden = [n for n in os.listdir(folder) if n.startswith(".nfs")]
    os.close(fd)
    # The client removes the hidden name behind our back.
    for _ in range(100):
        left = os.listdir(folder)
        if not left:
            break
        time.sleep(0.1)
    if left:
        sys.exit("left over: %r (while open: %r)" % (left, hidden))


if __name__ == "__main__":
    f = {"lock": lock_cmd}.get(sys.argv[1]) or globals()[sys.argv[1]]
    f(*sys.argv[2:])
