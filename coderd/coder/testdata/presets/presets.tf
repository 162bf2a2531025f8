data "coder_workspace_preset" "large" {
  name    = "Europe: Large"
  default = true
  parameters = {
    "region"                         = "eu"
    (data.coder_parameter.cpus.name) = 16
    (data.coder_parameter.key.name)  = "of-large"
  }
  prebuilds {
    instances = 2
    expiration_policy {
      ttl = 86400
    }
    scheduling {
      timezone = "Europe/Berlin"
      schedule {
        cron      = "* 8-18 * * 1-5"
        instances = 5
      }
      schedule {
        cron      = "* 8-14 * * 6"
        instances = 1
      }
    }
  }
}

data "coder_workspace_preset" "us" {
  name = "us"
  parameters = {
    region = "us"
    key    = "of-us"
  }
  prebuilds {
    instances = 1
  }
}

data "coder_workspace_preset" "custom" {
  name       = "custom"
  parameters = { cpus = 1, region = data.coder_workspace_owner.me.name }
}
