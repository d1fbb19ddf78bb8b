//! The formats of network configurations.

use serde::{Deserialize, Serialize};

/// The format of a network configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum NetworkFormat {
    /// Version 1 or 2 itself.
    Yaml,
    /// OpenStack's network_data.json.
    NetworkData,
    /// ifupdown's interfaces file.
    Eni,
    /// Azure's instance metadata.
    AzureImds,
    /// VMware's customization file; NICs are named like its sections.
    VmwareImc,
    /// VMware's customization file; NICs keep their names.
    VmwareImcOnMachine,
    /// EC2's instance metadata.
    Ec2Imds,
    /// AliYun's instance metadata.
    AliyunImds,
    /// Oracle's VNICs.
    OracleImds,
    /// Files of klibc's ipconfig.
    Klibc,
    /// `ip=` and related words of the kernel command line.
    KernelCommandLine,
    /// A format of a later release, in the cache that it wrote.
    Unknown(String),
}

impl NetworkFormat {
    /// All formats of this release.
    pub const ALL: &[NetworkFormat] = &[
        NetworkFormat::Yaml,
        NetworkFormat::NetworkData,
        NetworkFormat::Eni,
        NetworkFormat::AzureImds,
        NetworkFormat::VmwareImc,
        NetworkFormat::VmwareImcOnMachine,
        NetworkFormat::Ec2Imds,
        NetworkFormat::AliyunImds,
        NetworkFormat::OracleImds,
        NetworkFormat::Klibc,
        NetworkFormat::KernelCommandLine,
    ];

    /// Returns the name in the cache and on the command line.
    pub const fn as_str(&self) -> &str {
        match self {
            NetworkFormat::Yaml => "yaml",
            NetworkFormat::NetworkData => "network_data.json",
            NetworkFormat::Eni => "eni",
            NetworkFormat::AzureImds => "azure-imds",
            NetworkFormat::VmwareImc => "vmware-imc",
            NetworkFormat::VmwareImcOnMachine => "vmware-imc-here",
            NetworkFormat::Ec2Imds => "ec2-imds",
            NetworkFormat::AliyunImds => "aliyun-imds",
            NetworkFormat::OracleImds => "oracle-imds",
            NetworkFormat::Klibc => "klibc",
            NetworkFormat::KernelCommandLine => "kernel-command-line",
            NetworkFormat::Unknown(name) => name.as_str(),
        }
    }
}

impl From<String> for NetworkFormat {
    fn from(name: String) -> NetworkFormat {
        let known = NetworkFormat::ALL.iter().find(|format| format.as_str() == name);
        known.cloned().unwrap_or(NetworkFormat::Unknown(name))
    }
}

impl From<NetworkFormat> for String {
    fn from(format: NetworkFormat) -> String {
        format.as_str().into()
    }
}
