#!/bin/sh
echo "$1 at $(hostname)" >>/srv/guestinfo/.script
