#!/bin/sh
exec /root/.customization/customize.sh postcustomization
