# limit: 400
# The crate pjdfstest: POSIX behaviour. What the kernel's own server passes on the same store must pass here too:
# baseline/pjdfstest-knfsd.txt lists what fails there (NFSv3 itself cannot do it).
[ -x /tools/pjdfstest ] || bad "no pjdfstest: cargo install --root target/tools pjdfstest"
mnt rw /mnt/a actimeo=0 || bad "mount"
rm -rf /export/rw/pj; mkdir -m 755 /mnt/a/pj
printf '[features]\nposix_fallocate = {}\n[settings]\nnaptime = 0.02\n[dummy_auth]\nentries = [["nobody", "nogroup"], ["tests", "tests"]]\n' >$L/pj.toml
( cd $L && t 380 /tools/pjdfstest -c $L/pj.toml -p /mnt/a/pj ) >/out/pjdfstest-$SERVER.log 2>&1
tail -5 /out/pjdfstest-$SERVER.log
