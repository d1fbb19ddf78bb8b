Content-Type: multipart/mixed; boundary="===============2220774590144677251=="
MIME-Version: 1.0
Number-Attachments: 2

--===============2220774590144677251==
Content-Type: text/cloud-config; charset="utf-8"
MIME-Version: 1.0
Content-Disposition: attachment; filename="part-001"

#cloud-config
hostname: demo-box
fqdn: demo-box.example.test
manage_etc_hosts: true
timezone: Europe/Oslo
ssh_genkeytypes: [ed25519]
users:
  - name: alice
    gecos: Alice Example
    shell: /bin/sh
    sudo: "ALL=(ALL) NOPASSWD:ALL"
    lock_passwd: true
    ssh_authorized_keys:
      - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightTestKeyOfNobodyAtAllxxxxxxxxxxxxx alice@example
bootcmd:
  - echo 'bootcmd, every boot' >>/var/log/demo
write_files:
  - path: /etc/demo/greeting.conf
    content: |
      greeting = hello
    permissions: '0640'
  - path: /etc/demo/decoded
    encoding: b64
    content: aGVsbG8gYmFzZTY0Cg==
  - path: /var/lib/cloud/scripts/per-boot/count.sh
    content: |
      #!/bin/sh
      echo "per-boot script, every boot" >>/var/log/demo
    permissions: '0755'
runcmd:
  - echo 'runcmd, once per instance' >>/var/log/demo
final_message: "The machine is ready after $UPTIME seconds, from $datasource"

--===============2220774590144677251==
Content-Type: text/x-shellscript; charset="utf-8"
MIME-Version: 1.0
Content-Disposition: attachment; filename="hello.sh"

#!/bin/sh
echo "user script, once per instance" >>/var/log/demo

--===============2220774590144677251==--
