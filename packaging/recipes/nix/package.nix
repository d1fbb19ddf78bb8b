# nix-build -E '(import <nixpkgs> { }).pkgsStatic.callPackage ./package.nix { }'
{ lib, stdenv, fetchurl, cargo, rustc, python3, util-linuxMinimal }:

stdenv.mkDerivation rec {
  pname = "firstlight";
  version = "@VERSION@";

  # The crates are in the archive.
  src = fetchurl {
    url = "https://firstlight.example/releases/firstlight-${version}.tar.xz";
    sha256 = "@SHA256@";
  };

  nativeBuildInputs = [ cargo rustc python3 ];
  env = {
    BLKID_LIB_DIR = "${lib.getLib util-linuxMinimal}/lib";
    TARGET = stdenv.hostPlatform.rust.rustcTarget;
  };

  postPatch = "patchShebangs packaging";
  buildPhase = ''
    runHook preBuild
    CARGO_HOME=$PWD/build/cargo JOBS=$NIX_BUILD_CORES packaging/build build/bin
    runHook postBuild
  '';
  # NixOS has no /usr and another /etc for each generation: module.nix puts the configuration there.
  installPhase = ''
    runHook preInstall
    packaging/install VARIANT=unknown BIN=build/bin DESTDIR=$out PREFIX= VERSION=${version}
    substituteInPlace $out/lib/systemd/system/*.service --replace-quiet /lib/cloud-init/ $out/lib/cloud-init/
    install -Dm644 licences.txt $out/share/licenses/firstlight/licences.txt
    install -Dm644 sbom.cdx.json $out/share/doc/firstlight/sbom.cdx.json
    runHook postInstall
  '';

  meta = {
    description = "Cloud instance initialization, compatible with cloud-init";
    homepage = "https://firstlight.example/";
    # With what is linked in statically.
    license = with lib.licenses; [ asl20 bsd3 isc lgpl21Plus mit ];
    platforms = lib.platforms.linux;
    mainProgram = "cloud-init";
  };
}
