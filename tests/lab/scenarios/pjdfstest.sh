# limit: 400
# The crate pjdfstest: POSIX behaviour. What the kernel's own server passes on the same store must pass here too:
# baseline/pjdfstest-knfsd.txt lists what fails there (NFSv3 itself cannot do it).
[ -x /tools/pjdfstest ] || bad "no pjdfstest: cargo install --root target/tools pjdfstest"
mnt rw /mnt/a actimeo=0 || bad "mount"
rm -rf /export/rw/pj; mkdir -m 755 /mnt/a/pj
mkdir -p $L/pj2; B=/lab/baseline/pjdfstest-knfsd.txt; R=/out/pjdfstest-$SERVER.txt
printf '[features]\nposix_fallocate = {}\nutimensat = {}\nutime_now = {}\nrename_ctime = {}\n[settings]\nnaptime = 0.02\n[dummy_auth]\nentries = [["nobody", "nogroup"], ["tests", "tests"]]\n' >$L/pj.toml
( cd $L && t 380 /tools/pjdfstest -c $L/pj.toml -p /mnt/a/pj -s $L/pj2 ) >/out/pjdfstest-$SERVER.log 2>&1
sed -n 's/^\([a-z_:0-9]*\)  *\(ok\|FAILED\|skipped\)$/\2 \1/p' /out/pjdfstest-$SERVER.log | sort >$L/pj.all
# The form of the baseline: how many passed, and what did not.
{ echo "# $(grep -c '^ok ' $L/pj.all) passed"; grep -v '^ok ' $L/pj.all; } >$R
check "the suite ran to its end" grep -q '^Summary:' /out/pjdfstest-$SERVER.log
ran=$(grep -c '^ok ' $L/pj.all); want=$(sed -n 's/^# \([0-9]*\) passed/\1/p' $B)
if [ "$ran" -ge "$want" ]; then ok "$ran cases passed (the kernel's server: $want)"; else bad "only $ran cases passed (the kernel's server: $want)"; fi
new=$(grep '^FAILED' $R | grep -vxFf <(grep '^FAILED' $B))
if [ -z "$new" ]; then ok "nothing fails that passes on the kernel's server"; else for n in $(sed 's/^FAILED //' <<<"$new"); do bad "$n: $(grep -A4 "^$n  *FAILED" /out/pjdfstest-$SERVER.log | tail -4 | tr -s '\t\n' ' ' | cut -c1-200)"; done; fi
skips=$(grep '^skipped' $R | grep -vxFf <(grep '^skipped' $B))
same "nothing is skipped that was not there" "$skips" ""
