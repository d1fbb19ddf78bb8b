SSH_KEY='ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIseedseedseedseedseedseedseedseedseedseedsee seed@example'
ETH0_IP='10.3.0.5'
USERDATA='#!/bin/sh
exit 0'
DSMODE=''
