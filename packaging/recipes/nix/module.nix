# NixOS: imports = [ ./module.nix ]; services.firstlight.enable = true;
# Users, packages and services are declared by NixOS: a cloud-config can set the hostname, keys, network, disks, files and scripts.
{ config, lib, pkgs, ... }:

let
  cfg = config.services.firstlight;
  stages = [ "cloud-init-local" "cloud-init-network" "cloud-config" "cloud-final" ];
in
{
  options.services.firstlight = {
    enable = lib.mkEnableOption "Firstlight, which configures a cloud machine during its boot";
    package = lib.mkOption {
      type = lib.types.package;
      default = pkgs.pkgsStatic.callPackage ./package.nix { };
      description = "The package with the programs and units.";
    };
    settings = lib.mkOption {
      type = lib.types.attrs;
      default = { };
      example = { datasource_list = [ "ConfigDrive" "Ec2" ]; };
      description = "Settings of the image, which precede those of the package.";
    };
  };

  config = lib.mkIf cfg.enable {
    environment.systemPackages = [ cfg.package ];
    environment.etc = {
      "cloud/cloud.cfg".source = "${cfg.package}/etc/cloud/cloud.cfg";
      "cloud/templates".source = "${cfg.package}/etc/cloud/templates";
      "cloud/cloud.cfg.d/05_logging.cfg".source = "${cfg.package}/etc/cloud/cloud.cfg.d/05_logging.cfg";
      "cloud/cloud.cfg.d/50_nixos.cfg".text = builtins.toJSON cfg.settings;
    };
    networking.useNetworkd = lib.mkDefault true;
    services.udev.packages = [ cfg.package ];
    systemd.packages = [ cfg.package ];
    # For `updates: {network: {when: [hotplug]}}`. The stages cannot write their rule to NixOS' /etc/udev/rules.d; where hotplug is
    # wanted, the system declares it:
    #   services.udev.extraRules = ''ACTION=="add", SUBSYSTEM=="net", RUN+="${cfg.package}/lib/cloud-init/hook-hotplug"'';
    systemd.sockets.cloud-init-hotplugd.wantedBy = [ "cloud-config.target" ];
    # The generator, which is in the package, starts cloud-init.target.
    systemd.services = lib.genAttrs stages (name: {
      wantedBy = [ "cloud-init.target" ];
      path = with pkgs; [ e2fsprogs iproute2 openssh shadow systemd util-linux xfsprogs ];
      # The modules change what NixOS does not: a change of the system does not run them again.
      restartIfChanged = false;
    });
  };
}
