# Context of a machine
ETH0_MAC='02:00:00:00:0a:01'
ETH0_IP='10.3.0.21'
ETH0_MASK='255.255.254.0'
ETH0_GATEWAY='10.3.0.1'
ETH0_IP6='fd00:3::21'
ETH0_IP6_ULA='fd00:33::21'
ETH0_IP6_PREFIX_LENGTH='60'
ETH0_IP6_GATEWAY='fd00:3::1'
ETH0_GATEWAY6='fd00:3::9'
ETH0_DNS='10.3.0.2 fd00:3::2'
ETH0_SEARCH_DOMAIN='a.example'
ETH0_MTU='1420'
ETH0_ROUTES='10.64.0.0/10 via 10.3.0.7, 10.9.9.0/24 via 10.3.0.8'
DNS='10.3.0.2 10.3.0.3'
SEARCH_DOMAIN="b.example"
NETWORK="YES"
SET_HOSTNAME='nebula-21'
HOSTNAME=other
SSH_PUBLIC_KEY='# two keys
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAInebnebnebnebnebnebnebnebnebnebnebnebnebnebn neb@example

ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIulaulaulaulaulaulaulaulaulaulaulaulaulaulau ula@example'
TEXT='it'\''s a "test"'
JOINED="${SET_HOSTNAME}-$HOSTNAME"
ESCAPED="a\\b \$x \"q\""
EMPTY=''
USERDATA_ENCODING='base64'
USER_DATA='I2Nsb3VkLWNvbmZpZwp0aW1lem9uZTogRXVyb3BlL1p1cmljaAo='
