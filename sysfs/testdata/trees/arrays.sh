# Guest sata: RAID-5 and RAID-10 side by side on partitions of the same four drives, the latter mounted, and a
# mirror that has lost a member and must not take its spare.
disk() { readlink -f "/dev/disk/by-id/ata-QEMU_HARDDISK_QDLAB-SATA-$1"; }
a=$(disk 1) b=$(disk 2) c=$(disk 3) d=$(disk 4)
for each in $a $b $c $d; do
	printf ',80M\n,80M\n,40M\n' | sfdisk -q "$each"
done
create() { mdadm --create --quiet --run --assume-clean --bitmap=none --homehost=any "$@"; }
create /dev/md5 --uuid=5a5a5a5a:00000000:00000000:00000005 --level=5 --raid-devices=4 "${a}1" "${b}1" "${c}1" "${d}1"
create /dev/md10 --uuid=5a5a5a5a:00000000:00000000:00000010 --level=10 --raid-devices=4 "${a}2" "${b}2" "${c}2" "${d}2"
create /dev/md1 --uuid=5a5a5a5a:00000000:00000000:00000001 --level=1 --raid-devices=2 --spare-devices=1 "${a}3" "${b}3" "${c}3"
echo frozen > /sys/block/md1/md/sync_action
mdadm --quiet /dev/md1 --fail "${b}3"
mkfs.ext4 -q /dev/md10
mkdir -p /mnt/raid10
mount /dev/md10 /mnt/raid10
cat /proc/mdstat
