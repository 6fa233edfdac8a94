# limit: 60
# Names, links, and files that lose their name while they are open.
mnt rw /mnt/a || bad "mount"
D=/mnt/a/names; rm -rf $D; mkdir $D || bad "mkdir"
check "long, non-UTF-8 and odd names are bytes" t 40 python3 /lab/helper.py special $D
check "rename over an open file, unlink of an open file" t 30 python3 /lab/helper.py open_over $D
cd $D || bad "cd"
echo one >f; check "hard link" ln f g
gives "two names, one file" "2 2" bash -c "stat -c %h f g | tr '\n' ' ' | sed 's/ $//'"
same "the same number" "$(stat -c %i f)" "$(stat -c %i g)"
echo two >>g; gives "one content" "one two" bash -c "cat f | tr '\n' ' ' | sed 's/ $//'"
rm f; gives "one name fewer" 1 stat -c %h g
deny "a hard link to a folder" ln . /mnt/a/names/loop
mkdir sub; touch there; deny "a link to an existing name" ln g there; rm there
check "rename to another folder" mv g sub/h
mkdir -p p/q; deny "a folder into itself" bash -c 'mv p p/q/r'
mkdir empty full; touch full/x
deny "a folder over a full one" python3 -c 'import os; os.rename("empty", "full")'
check "a folder over an empty one" python3 -c 'import os; os.mkdir("e2"); os.rename("full", "e2")'
deny "a file over a folder" python3 -c 'import os; open("file", "w"); os.rename("file", "e2")'
deny "rmdir of a full folder" rmdir e2
deny "rmdir of a file" rmdir file
deny "unlink of a folder" python3 -c 'import os; os.unlink("empty")'
l=$(printf 'x%.0s' $(seq 1000)); check "a symbolic link of 1000 bytes" ln -s "$l" long
gives "comes back whole" "$l" readlink long
ln -s sub/h s; gives "a link is followed" "one two" bash -c "cat s | tr '\n' ' ' | sed 's/ $//'"
gives "the same seen by another client" "one two" bash -c ". /lab/lib.sh; mnt_on c2 rw /mnt/a && on c2 cat /mnt/a/names/sub/h | tr '\n' ' ' | sed 's/ $//'"
cd /; t 30 rm -rf $D
