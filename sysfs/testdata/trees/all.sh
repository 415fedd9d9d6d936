# Guest all: swap on a partition of the NVMe drive, a mounted file system on the virtio drive, the stick as it is.
nvme=$(readlink -f /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_QDLAB-NVME-1)
printf ',128M\n,64M\n' | sfdisk -q "$nvme"
mkswap "${nvme}p2"
swapon "${nvme}p2"
virtio=$(readlink -f /dev/disk/by-id/virtio-QDLAB-VIRTIO-1)
mkfs.ext4 -q "$virtio"
mkdir -p /mnt/virtio
mount "$virtio" /mnt/virtio
