# limit: 90
# Operations run as the caller: squash rules, mode bits, groups, owners.
mnt rw /mnt/a || bad "mount rw"; mnt squash /mnt/b || bad "mount squash"; mnt allsq /mnt/c || bad "mount allsq"
rm -rf /export/{rw,squash,allsq}/p; mkdir /export/{rw,squash,allsq}/p; chmod 1777 /export/{rw,squash,allsq}/p
own() { stat -c %u:%g "$1"; }
touch /mnt/a/p/root; gives "root stays root" 0:0 own /export/rw/p/root
touch /mnt/b/p/root; gives "root is squashed" 65534:65534 own /export/squash/p/root
touch /mnt/c/p/root; gives "root becomes the given user" 1500:1500 own /export/allsq/p/root
as 1000 1000 touch /mnt/a/p/u /mnt/b/p/u /mnt/c/p/u
gives "a user stays" 1000:1000 own /export/rw/p/u
gives "a user stays, root squashed" 1000:1000 own /export/squash/p/u
gives "all are the given user" 1500:1500 own /export/allsq/p/u
deny "squashed root gives nothing away" chown 0:0 /mnt/b/p/root
deny "squashed root has no special right" bash -c 'install -m 600 -o 0 -g 0 /etc/hostname /export/squash/p/secret; cat /mnt/b/p/secret'
check "root may, where it is root" bash -c 'install -m 600 -o 1000 -g 1000 /etc/hostname /export/rw/p/secret; cat /mnt/a/p/secret'
deny "another user's file" as 2000 2000 cat /mnt/a/p/secret
check "the owner" as 1000 1000 cat /mnt/a/p/secret
deny "another user, after the owner read it" as 2000 2000 cat /mnt/a/p/secret
deny "another user may not write" as 2000 2000 bash -c 'echo x >>/mnt/a/p/secret'
deny "nor truncate" as 2000 2000 truncate -s 0 /mnt/a/p/secret
deny "nor chmod" as 2000 2000 chmod 777 /mnt/a/p/secret
deny "nor chown" as 2000 2000 chown 2000 /mnt/a/p/secret
deny "nor set times" as 2000 2000 touch -d yesterday /mnt/a/p/secret
deny "nor remove it from a sticky folder" as 2000 2000 rm -f /mnt/a/p/secret
chown 1000:3000 /mnt/a/p/secret; chmod 640 /mnt/a/p/secret
check "by a supplementary group" as 2000 2000,3000 cat /mnt/a/p/secret
deny "without it" as 2000 2000 cat /mnt/a/p/secret
check "the owner may give it to a group of his" as 1000 1000,3000 chgrp 1000 /mnt/a/p/secret
deny "to another group not" as 1000 1000 chgrp 4000 /mnt/a/p/secret
deny "nor to another user" as 1000 1000 chown 2000 /mnt/a/p/secret
check "a file made read-only is still written by who made it" as 1000 1000 python3 -c "
import os
fd = os.open('/mnt/a/p/mine', os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o444)
os.write(fd, b'x' * 5000); os.fsync(fd); os.close(fd)"
gives "5000 bytes" 5000 stat -c %s /export/rw/p/mine
mkdir -m 2775 /mnt/a/p/sg; chgrp 3000 /mnt/a/p/sg; chmod 2777 /mnt/a/p/sg
as 1000 1000 touch /mnt/a/p/sg/f; gives "a setgid folder gives its group" 1000:3000 own /mnt/a/p/sg/f
install -m 4755 -o 1000 -g 1000 /bin/true /export/rw/p/suid
chmod 777 /export/rw/p; as 1000 1000 bash -c 'echo >>/mnt/a/p/suid'
gives "writing clears setuid" 755 stat -c %a /export/rw/p/suid
( umask 027; as 1000 1000 touch /mnt/a/p/um ); gives "umask" 640 stat -c %a /export/rw/p/um
mkdir -m 700 /mnt/a/p/priv; echo x >/mnt/a/p/priv/f; chmod 666 /mnt/a/p/priv/f
deny "a folder without search permission" as 1000 1000 cat /mnt/a/p/priv/f
gives "access(2) agrees" "1 0" bash -c ". /lab/lib.sh; as 1000 1000 test -r /mnt/a/p/priv; a=\$?; as 1000 1000 test -w /mnt/a/p/u; echo \$a \$?"
