Add your settings in files whose names end in ".cfg"; other files are ignored. The files are YAML like
../cloud.cfg and are read after it in the order of their names; a later file's value overrides an earlier
one's. "cloud-init query merged_system_cfg" shows the result.
