#!/bin/sh
echo "user script, once per instance" >>/var/log/demo
