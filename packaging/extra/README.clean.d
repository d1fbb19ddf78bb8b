Programs in this directory are run, in the order of their names, at the end of "cloud-init clean". Put one here
to remove what must not be cloned with an image. One that fails makes the command fail. Only executable files
are run.
