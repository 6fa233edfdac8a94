# limit: 120
# The crate fsx: random reads, writes, truncations and mappings on one file, checked against memory.
[ -x /tools/fsx ] || bad "no fsx: cargo install --root target/tools fsx"
mnt rw /mnt/a || bad "mount"
rm -rf /export/rw/fsx; mkdir /mnt/a/fsx; mkdir -p $L/fsx
cat >$L/fsx/all.toml <<'C'
[opsize]
max = 65536
[weights]
mapread = 1
mapwrite = 1
C
cat >$L/fsx/nommap.toml <<'C'
flen = 1048576
[opsize]
max = 262144
[weights]
mapread = 0
mapwrite = 0
close_open = 1
C
cd $L/fsx || bad "cd"
for s in 1 2 3; do check "seed $s, with mappings" t 60 /tools/fsx -q -S $s -N 1500 -f $L/fsx/all.toml -P $L/fsx /mnt/a/fsx/m$s; done
for s in 4 5; do check "seed $s, large, without mappings, closing and opening" t 60 /tools/fsx -q -S $s -N 1500 -f $L/fsx/nommap.toml -P $L/fsx /mnt/a/fsx/n$s; done
