# Boots the container of `cloud-init try`. Arguments: the root, a working directory with the directory "seed", the directory to keep the
# upper layer in or nothing, "shell" or nothing, and the limit of the boot in seconds. The caller gives it mount, network and process
# namespaces of its own, so that all of it ends with this script. It leaves WORK/report and exits with the code of `cloud-init status`.
set -eu
root=$1 work=$2 keep=$3 shell=$4 limit=$5
note() { echo "$*" >>"$work/report"; }

top=$work/top
mkdir "$top"
mount -t tmpfs -o mode=0700 tmpfs "$top"
layers=$top
if [ -n "$keep" ]; then
    mkdir -m 700 "$keep"
    layers=$keep
fi
mkdir "$layers/upper" "$layers/work" "$top/merged" "$top/facts"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$layers/upper,workdir=$layers/work" "$top/merged"

unit=etc/systemd/system/cloud-init-try.service
cat >"$top/facts/collect" <<END
cd /run/try
timeout $limit cloud-init status --wait >/dev/null 2>&1
cloud-init status --long >status 2>&1
echo \$? >code
cloud-init doctor --no-plan >doctor 2>&1
: >complete
END

# The view of this network namespace, without a udevd that would have to know eth0; and control groups of version 2.
umount -R /sys 2>/dev/null || umount -R -l /sys
mount -t sysfs -o ro sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
group=
leave() {
    [ -n "$group" ] || return 0
    echo 0 >/sys/fs/cgroup/cgroup.procs
    echo 1 >"$group/cgroup.kill" || :
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        grep -q '^populated 1' "$group/cgroup.events" || break
        sleep .2
    done
    find "$group" -depth -type d -exec rmdir {} + || :
}
trap leave EXIT
trap 'exit 130' INT TERM HUP
if [ ! -d /run/systemd/system ]; then
    # With systemd, the caller has a scope of its own.
    group=$(mktemp -d /sys/fs/cgroup/cloud-init-try.XXXXXXXX)
    echo 0 >"$group/cgroup.procs"
fi

network=--private-network
if command -v ip >/dev/null && command -v dnsmasq >/dev/null; then
    ip link set lo up
    ip link add eth0 type veth peer name peer0
    ip address add 192.0.2.1/24 dev peer0
    ip link set peer0 up
    network=--network-interface=eth0
    server="a DHCP server"
    dnsmasq --conf-file=/dev/null --no-resolv --no-hosts --interface=peer0 --bind-interfaces --user=root --pid-file= \
        --dhcp-range=192.0.2.10,192.0.2.99 --dhcp-leasefile="$top/leases" --log-facility="$top/dnsmasq.log" ||
        server="nothing, because dnsmasq did not start"
    note "network: eth0, which is connected to $server, without a route to other machines: nothing can be downloaded"
else
    note "network: none, because dnsmasq or iproute2 is not installed"
fi

# A machine without earlier boots, whose only datasource is the seed. In a container, where links of the root stay within it.
container="--quiet --register=no --keep-unit --timezone=off --resolv-conf=off --machine=cloud-init-try"
# shellcheck disable=SC2086 # several options
systemd-nspawn $container --pipe --private-network --bind-ro="$work/seed:/run/seed" -D "$top/merged" /bin/sh -eu <<END
for name in instance instances data sem seed; do
    rm -rf /var/lib/cloud/\$name
done
rm -rf /var/log/cloud-init.log /var/log/cloud-init-output.log /etc/cloud/cloud-init.disabled
mkdir -p /var/lib/cloud/seed /etc/cloud/cloud.cfg.d /etc/systemd/system/multi-user.target.wants
cp -r /run/seed /var/lib/cloud/seed/nocloud
echo 'datasource_list: [NoCloud, None]' >/etc/cloud/cloud.cfg.d/zz-try.cfg
printf '%s\n' '[Service]' 'ExecStart=/bin/sh /run/try/collect' StandardOutput=null >/$unit
ln -s /$unit /etc/systemd/system/multi-user.target.wants/
END

# shellcheck disable=SC2086 # several options
systemd-nspawn $container --boot --console=pipe "$network" --bind="$top/facts:/run/try" -D "$top/merged" systemd.unit=multi-user.target </dev/null >"$top/console" 2>&1 &
nspawn=$!
seconds=0
while [ ! -e "$top/facts/complete" ] && kill -0 "$nspawn" 2>/dev/null && [ "$seconds" -lt "$limit" ]; do
    sleep 1
    seconds=$((seconds + 1))
done
if [ -n "$shell" ]; then
    read -r leader _ <"/proc/$nspawn/task/$nspawn/children" || :
    echo "A shell in the container, which is removed when the shell exits:"
    nsenter --target "$leader" --mount --uts --ipc --net --pid --root --wd /bin/sh -c 'exec "${SHELL:-/bin/bash}" -l' || :
fi
kill "$nspawn" 2>/dev/null || :
for _ in $(seq 30); do
    kill -0 "$nspawn" 2>/dev/null || break
    sleep 1
done

cd "$layers/upper"
find . \( -name cloud-init-try.service -o -name zz-try.cfg \) -delete
note "FILES that the boot wrote, without those below /run, /tmp and /var"
find . \( -path ./var -o -path ./run -o -path ./tmp \) -prune -o -type f -print | sed 's|^\./|  /|' | sort >>"$work/report"
# What the container left instead of files is not read.
find "$top/facts" -mindepth 1 ! -type f -delete
if [ -e "$top/facts/complete" ] && [ -e "$top/facts/status" ] && [ -e "$top/facts/doctor" ]; then
    note "STATUS"
    sed 's/^/  /' "$top/facts/status" >>"$work/report"
    # The container has no route and ends here; what doctor advises is for the files, or for the root.
    name=$(printf '%s' "$root" | sed 's/[&|]/\\&/g')
    sed -e 's|/etc/resolv.conf: names could not be resolved|network: this container has no name server, so names could not be resolved|' \
        -e 's|-> check the name servers of.*|-> see "network" above|' \
        -e 's|correct the \([a-z0-9-]*\) at the cloud, then boot .*|correct the \1, and try it again|' \
        -e 's/ && reboot//' -e 's/[;,] then reboot//' -e 's/ --now//' \
        -e "s|systemctl \(enable\|unmask\|set-default\)|systemctl --root=$name \1|g" \
        "$top/facts/doctor" >>"$work/report"
    code=$(head -c 3 "$top/facts/code" | tr -dc 0-9)
    exit "${code:-1}"
fi
note "The boot did not complete. The end of the container's console:"
tail -n 20 "$top/console" | sed 's/^/  /' >>"$work/report"
exit 1
