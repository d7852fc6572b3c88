"""ReFrame's settings of a single machine: ranks are started by mpirun, without a batch system."""

site_configuration = {
    "systems": [
        {
            "name": "workstation",
            "hostnames": [".*"],
            "partitions": [
                {"name": "default", "scheduler": "local", "launcher": "mpirun", "environs": ["none"]},
            ],
        }
    ],
    "environments": [{"name": "none", "cc": "cc", "cxx": "", "ftn": ""}],
}
