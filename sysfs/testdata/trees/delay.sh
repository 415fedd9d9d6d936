# Guest delay: RAID-0 over two of the four drives.
set -- /dev/disk/by-id/scsi-SLinux_scsi_debug_*
mdadm --create --quiet /dev/md0 --run --homehost=any --uuid=5a5a5a5a:00000000:00000000:00000000 --level=0 --chunk=64 --raid-devices=2 \
	"$(readlink -f "$1")" "$(readlink -f "$2")"
cat /proc/mdstat
