"""made-by-nova.py DIRECTORY - writes what OpenStack's nova makes for an invented machine: drive/, the config drive of its
ConfigDriveBuilder, and server.json, the answers of its metadata service (its WSGI application), for lib/imds. What nova would read
from a database and from Neutron is made here.
"""
import base64
import json
import os
import sys
from unittest import mock

import nova.conf
import webob
from nova import config, objects
from nova.api.metadata import base, handler
from nova.network import model
from nova.virt import configdrive

UUID = "6d1c0a5e-7b1f-4c55-9c43-0f2a7e1b9d10"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIDdb/1dxYDHpXHWU1WZxm2sG9a9Wc5iV8T2Vn5b1Vuf zoe"
ADDRESS = "192.0.2.60"
# The versions that cloud-init reads, of the many that nova has.
VERSIONS = ("/openstack/2018-08-27/", "/openstack/latest/", "/latest/")


def config_that_writes(path):
    return f"#cloud-config\nwrite_files: [{{path: {path}, content: of nova}}]\n"


def subnet(cidr, gateway, address, servers, **more):
    servers = [model.IP(address=server) for server in servers]
    address = model.FixedIP(address=address)
    return model.Subnet(cidr=cidr, gateway=model.IP(address=gateway), ips=[address], dns=servers, **more)


def network_info():
    route = model.Route(cidr="198.51.100.0/24", gateway=model.IP(address="192.0.2.9"))
    network = model.Network(id="front", bridge="br-int", label="front", mtu=1450, injected=True, subnets=[
        subnet("192.0.2.0/24", "192.0.2.1", ADDRESS, ["192.0.2.53", "192.0.2.54"], routes=[route]),
        subnet("2001:db8::/64", "2001:db8::1", "2001:db8::60", ["2001:db8::53"])])
    return model.NetworkInfo([model.VIF(
        id="0a0b0c0d-0000-4000-8000-000000000001", address="02:00:00:00:0a:01", devname="tap0a0b0c0d-01",
        network=network, type=model.VIF_TYPE_OVS)])


def instance():
    key = objects.KeyPair(name="zoe", type="ssh", public_key=KEY)
    return objects.Instance(
        uuid=UUID, hostname="made-by-nova", display_name="Made by nova", launch_index=0, project_id="p1", host="compute-1",
        availability_zone="nova-2", key_name="zoe", key_data=KEY, metadata={"role": "web"}, system_metadata={},
        user_data=base64.b64encode(config_that_writes("/etc/of-the-user").encode()).decode(),
        reservation_id="r-1", root_device_name="/dev/vda", default_ephemeral_device=None, default_swap_device=None,
        kernel_id="", ramdisk_id="", device_metadata=None, numa_topology=None,
        ec2_ids=objects.EC2Ids(instance_id="i-00000007", ami_id="ami-00000002", kernel_id=None, ramdisk_id=None),
        keypairs=objects.KeyPairList(objects=[key]), flavor=objects.Flavor(name="small"),
        info_cache=objects.InstanceInfoCache(network_info=network_info()))


def read(application, path, found):
    """Reads a path and, if it is a list, what the list has."""
    answer = webob.Request.blank(path, remote_addr=ADDRESS).get_response(application)
    if answer.status_int != 200:
        return
    found[path] = answer.text
    if path.endswith("/"):
        for line in answer.text.splitlines():
            # `0=zoe` is the key `0`, which is a list.
            name, equal, _ = line.partition("=")
            inner = path + name + ("/" if equal else "")
            if path != "/openstack/" or inner + "/" in VERSIONS:
                read(application, inner + ("/" if path == "/openstack/" else ""), found)


def main(top):
    config.parse_args(["nova", "--config-file", os.devnull], configure_db=False, init_rpc=False)
    objects.register_all()
    vendor = os.path.join(top, "vendor.json")
    with open(vendor, "w", encoding="utf-8") as out:
        json.dump({"cloud-init": config_that_writes("/etc/of-the-vendor")}, out)
    nova.conf.CONF.set_override("vendordata_jsonfile_path", vendor, group="api")
    for name, answer in [
        ("nova.objects.Instance.get_bdms", objects.BlockDeviceMappingList(objects=[])),
        ("nova.network.security_group_api.get_instance_security_groups", [{"name": "default"}]),
    ]:
        mock.patch(name, lambda *_, answer=answer, **__: answer).start()
    mock.patch("os.urandom", lambda size: b"seed" * (size // 4)).start()
    drive = base.InstanceMetadata(instance(), content=[("/etc/injected", b"of the drive\n")])
    builder = configdrive.ConfigDriveBuilder(drive)
    builder.mdfiles = [(path, data) for path, data in builder.mdfiles if path.startswith("openstack/content")
                       or ("/" + path).replace("/ec2/", "/").startswith(VERSIONS)]
    builder._write_md_files(os.path.join(top, "drive"))
    served = base.InstanceMetadata(instance(), address=ADDRESS)
    mock.patch("nova.api.metadata.base.get_metadata_by_address", lambda _: served).start()
    application, found = handler.MetadataRequestHandler(), {}
    for path in ("/openstack", "/openstack/", "/openstack/content/0000", "/latest/user-data", "/latest/meta-data/"):
        read(application, path, found)
    with open(os.path.join(top, "server.json"), "w", encoding="utf-8") as out:
        json.dump({"paths": found}, out, indent=1)
        out.write("\n")


main(sys.argv[1])
