terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

locals {
  regions = ["eu", "us"]
}

data "coder_parameter" "region" {
  name    = "region"
  default = local.regions[0]
  dynamic "option" {
    for_each = local.regions
    content {
      name  = upper(option.value)
      value = option.value
    }
  }
}

data "coder_parameter" "repository" {
  name        = "Git Repository"
  description = "What is cloned."
  default     = "https://example.com/repository.git"
}

data "coder_parameter" "cpus" {
  name    = "cpus"
  type    = "number"
  default = 2
}

data "coder_parameter" "features" {
  name    = "features"
  type    = "list(string)"
  default = jsonencode(["docker", "go"])
}

data "coder_parameter" "key" {
  name        = "key"
  description = "It has no default."
}
