# Guest sata: a volume group over two drives, with a striped volume that carries dm-crypt and a mounted file
# system, and a plain one that is free; a multipath map over the two others.
disk() { readlink -f "/dev/disk/by-id/ata-QEMU_HARDDISK_QDLAB-SATA-$1"; }
pvcreate -f -y "$(disk 1)" "$(disk 2)"
vgcreate qdlab "$(disk 1)" "$(disk 2)"
lvcreate -y -Zn -Wn -i 2 -L 64M -n data qdlab
lvcreate -y -Zn -Wn -L 32M -n free qdlab "$(disk 1)"
head -c 64 /dev/zero > key
cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 512 --key-file key /dev/mapper/qdlab-data secret
mkfs.ext4 -q /dev/mapper/secret
mkdir -p /mnt/secret
mount /dev/mapper/secret /mnt/secret
sectors=$(cat "/sys/block/$(basename "$(disk 3)")/size")
dmsetup create paths --uuid mpath-35000c5000abc00aa --table "0 $sectors multipath 0 0 1 1 round-robin 0 2 1 $(disk 3) 1000 $(disk 4) 1000"
dmsetup ls
