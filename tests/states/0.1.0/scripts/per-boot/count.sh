#!/bin/sh
echo "per-boot script, every boot" >>/var/log/demo
