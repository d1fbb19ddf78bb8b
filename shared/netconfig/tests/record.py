"""Calls a packaged cloud-init's conversions with the cases of one format; prints their outcomes as JSON."""
import copy
import json
import os
import sys
from unittest import mock

import yaml

FORMAT = sys.argv[1]


def eni(case):
    from cloudinit.net import eni

    for path, text in case.get("files", {}).items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as out:
            out.write(text)
    try:
        return eni.convert_eni_data(case["input"])
    finally:
        for path in case.get("files", {}):
            os.unlink(path)


def azure(case):
    from cloudinit.sources import DataSourceAzure

    nics = [(n["name"], n["mac"], n.get("driver"), None) for n in case.get("nics", [])]
    settings = {
        key: case["input"].get(key, True)
        for key in ("apply_network_config_for_secondary_ips", "apply_network_config_set_name")
    }
    with mock.patch("cloudinit.net.get_interfaces", return_value=nics):
        return DataSourceAzure.generate_network_config_from_instance_network_metadata(
            case["input"]["network"], **settings
        )


def by_mac(case):
    return {n["mac"]: n["name"] for n in case.get("nics", [])}


def ec2(case):
    from cloudinit.net import netplan
    from cloudinit.net.dhcp import NoDHCPLeaseError
    from cloudinit.sources import DataSourceEc2

    names = {name: mac for mac, name in by_mac(case).items()}

    def lease(nic, distro):
        router = case["input"].get("routers", {}).get(names[nic])
        if not router:
            raise NoDHCPLeaseError("none")
        return {"routers": router}

    distro = mock.Mock()
    distro.network_renderer = object.__new__(netplan.Renderer) if case.get("netplan") else object()
    distro.dhcp_client.dhcp_discovery = lease
    return DataSourceEc2.convert_ec2_metadata_network_config(
        case["input"]["network"],
        distro,
        by_mac(case),
        fallback_nic=case.get("fallback"),
        full_network_config=case["input"].get("apply_full_imds_network_config", True),
    )


def aliyun(case):
    from cloudinit.sources.helpers import aliyun

    return aliyun.convert_ecs_metadata_network_config(
        case["input"]["network"],
        by_mac(case),
        fallback_nic=case.get("fallback"),
        full_network_config=case["input"].get("apply_full_imds_network_config", True),
    )


def oracle(case):
    from cloudinit.sources import DataSourceOracle as module

    masters = [n["name"] for n in case["nics"] if n.get("failover")]
    initramfs = case.get("initramfs")
    with mock.patch.object(module, "get_interfaces_by_mac", return_value=by_mac(case)), mock.patch.object(
        module, "is_netfail_master", side_effect=lambda name: name in masters
    ), mock.patch.object(module, "_ibft_has_iscsi_boot_target", return_value=bool(case.get("iscsi"))):
        source = object.__new__(module.DataSourceOracle)
        source._network_config = {"config": [], "version": 1}
        source.ds_cfg = {}
        source._network_config_source = mock.Mock()
        source._network_config_source.is_applicable.return_value = bool(initramfs)
        source._network_config_source.render_config.return_value = copy.deepcopy(initramfs)
        source._vnics_data = case["input"]["vnics"]
        source.ds_cfg["configure_secondary_nics"] = case["input"].get("configure_secondary_nics", False)
        return source.network_config


def vmware(case):
    from cloudinit.sources.helpers.vmware.imc import config_nic, guestcust_util

    with open("/tmp/cust.cfg", "w") as out:
        out.write(case["input"])
    config = guestcust_util.Config(guestcust_util.ConfigFile("/tmp/cust.cfg"))
    here = case.get("here")

    def devices(self):
        self.mac2Name = {n["mac"]: n["name"] for n in here}

    with mock.patch.object(config_nic.NicConfigurator, "find_devices", devices):
        return guestcust_util.get_network_data_from_vmware_cust_cfg(config, here is not None)


def klibc(case):
    from cloudinit.net import cmdline

    files = []
    for name, text in sorted(case["files"].items()):
        files.append("/tmp/" + name)
        with open(files[-1], "w") as out:
            out.write(text)
    return cmdline.config_from_klibc_net_cfg(files, {n["name"]: n["mac"] for n in case.get("nics", [])})


def klibc_condition(case):
    from cloudinit.net import cmdline

    return cmdline.KlibcNetworkConfigSource(["x"], {}, case["input"]).is_applicable()


def command_line(case):
    from cloudinit.net import cmdline

    return cmdline.read_kernel_cmdline_config(case["input"])


CONVERSIONS = {
    "eni": eni,
    "azure-imds": azure,
    "ec2-imds": ec2,
    "aliyun-imds": aliyun,
    "oracle-imds": oracle,
    "vmware-imc": vmware,
    "klibc": klibc,
    "klibc-condition": klibc_condition,
    "command-line": command_line,
}

outcomes = {}
with open("/tmp/cases.yaml") as cases:
    for case in yaml.safe_load(cases):
        try:
            outcomes[case["name"]] = {"config": CONVERSIONS[FORMAT](copy.deepcopy(case))}
        except (Exception, RecursionError) as error:
            outcomes[case["name"]] = {"error": type(error).__name__}
print(json.dumps(outcomes, indent=1, sort_keys=True))
