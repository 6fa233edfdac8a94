# limit: 120
# A source tree is copied in and out, and is the same: bytes, modes, times, links.
mnt rw /mnt/a || bad "mount"
rm -rf /export/rw/tree; mkdir -p $L/tree
( cd /src && tar cf - --exclude=./target --exclude=./.git --exclude='corpus*' . ) | tar xf - -C $L/tree
ln -s ../nowhere/file $L/tree/dangling; ln $L/tree/Cargo.toml $L/tree/second-name; chmod 741 $L/tree/README.md 2>/dev/null
touch -d '1971-02-03 04:05:06.789' $L/tree/second-name
n=$(find $L/tree | wc -l)
check "copied in ($n objects)" t 90 cp -a $L/tree /mnt/a/tree
check "the server has the same bytes" diff -r --no-dereference $L/tree /export/rw/tree
umount /mnt/a; mnt rw /mnt/a
check "copied out" t 90 cp -a /mnt/a/tree $L/back
check "came back the same" diff -r --no-dereference $L/tree $L/back
list() { ( cd "$1" && find . -type f -printf '%P %m %s %n %U %G %T@\n' -o -type l -printf '%P %l %U\n' -o -type d -printf '%P %m %U %G %T@\n' | sort ); }
check "with modes, owners, link counts and times" diff <(list $L/tree) <(list $L/back)
check "removed through the mount" t 60 rm -rf /mnt/a/tree
deny "and gone from the server" test -e /export/rw/tree
rm -rf $L/tree $L/back
