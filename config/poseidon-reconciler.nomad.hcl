# poseidon-reconciler as a service beside Poseidon. Needs Nomad 1.4 (variables), the docker driver, and the CNI plugins on the
# clients, because its network is a bridge. In the project's directory, to where the clients can pull it from:
#
#   make image ARGS="--tag registry.example/poseidon-reconciler:VERSION"
#   docker push registry.example/poseidon-reconciler:VERSION
#
# And in this one:
#
#   nomad acl policy apply poseidon-reconciler acl-policy.hcl
#   nomad var put nomad/jobs/poseidon-reconciler token=$(nomad acl token create \
#       -policy poseidon-reconciler -type client -t '{{.SecretID}}')
#   nomad job run -var nomad_address=https://nomad.example:4646 \
#       -var image=registry.example/poseidon-reconciler:VERSION poseidon-reconciler.nomad.hcl
#   nomad service info poseidon-reconciler    # where the page is: Nomad chooses the port
#
# On a cluster without ACLs leave out the first two, and below RECONCILER_NOMAD__TOKEN_FILE and the template of the token:
# the task would wait for its variable for ever. A private CA, mutual TLS and the tokens of http.token_file and
# poseidon.token_file: what stands in comments below.
#
# reconciler.yaml goes along (from elsewhere: -var configuration=path/to/reconciler.yaml), with poseidon.address and all else
# that is not set below. It is read again (SIGHUP) when the job is registered with another one.

variable "nomad_address" {
  type        = string
  description = "http(s)://host:port of a server or client agent, as the container reaches it."
}

variable "poseidon_namespace" {
  type        = string
  description = "The namespace whose jobs are looked after."
  default     = "default"
}

variable "configuration" {
  type        = string
  description = "The path of reconciler.yaml, seen from where `nomad job run` is called."
  default     = "reconciler.yaml"
}

variable "image" {
  type        = string
  description = "The image that `make image` built, as the clients can pull it: registry/name:version."
}

variable "datacenters" {
  type    = list(string)
  default = ["*"]
}

variable "telemetry_endpoint" {
  type        = string
  description = "Base URL of an OpenTelemetry collector; empty: nothing is sent."
  default     = ""
}

job "poseidon-reconciler" {
  type        = "service"
  datacenters = var.datacenters
  # Above the pools: it is what fills them again.
  priority = 80

  group "reconciler" {
    # Two would do no harm, and no good either: all state comes from Nomad.
    count = 1

    network {
      mode = "bridge"
      port "http" {
        to = 8646
      }
    }

    update {
      health_check      = "checks"
      min_healthy_time  = "10s"
      healthy_deadline  = "5m"
      progress_deadline = "10m"
      auto_revert       = true
    }

    restart {
      attempts = 3
      interval = "5m"
      delay    = "10s"
      mode     = "delay"
    }

    reschedule {
      delay          = "30s"
      delay_function = "exponential"
      max_delay      = "10m"
      unlimited      = true
    }

    # Keeps state_dir when the job moves: the last known templates, pauses, recordings of anomalies.
    ephemeral_disk {
      sticky  = true
      migrate = true
      size    = 600 # MB
    }

    service {
      name     = "poseidon-reconciler"
      provider = "nomad"
      port     = "http"

      check {
        name     = "lives"
        type     = "http"
        path     = "/healthz"
        interval = "15s"
        timeout  = "5s"

        check_restart {
          limit = 4
          grace = "60s"
        }
      }

      # Not ready is no reason to restart: whoever waits for Nomad's servers waits for them after a restart too.
      check {
        name     = "is ready"
        type     = "http"
        path     = "/readyz"
        interval = "15s"
        timeout  = "5s"
      }
    }

    task "run" {
      driver = "docker"
      # Longer than the eight seconds in which writes under way are finished.
      kill_timeout = "15s"

      config {
        image           = var.image
        args            = ["run", "--config", "/local/reconciler.yaml"]
        ports           = ["http"]
        readonly_rootfs = true
        cap_drop        = ["all"]
        security_opt    = ["no-new-privileges"]
      }

      # These win over reconciler.yaml. So would NOMAD_NAMESPACE, which Nomad sets to this job's own.
      env {
        NOMAD_ADDR                     = var.nomad_address
        RECONCILER_NOMAD__NAMESPACE    = var.poseidon_namespace
        RECONCILER_NOMAD__TOKEN_FILE   = "/secrets/nomad-token"
        RECONCILER_HTTP__LISTEN        = "0.0.0.0:8646"
        RECONCILER_STATE_DIR           = "/alloc/data/poseidon-reconciler"
        RECONCILER_TELEMETRY__ENDPOINT = var.telemetry_endpoint
        # NOMAD_CACERT = "/secrets/nomad-ca.pem"
        # NOMAD_CLIENT_CERT = "/secrets/nomad-cert.pem"
        # NOMAD_CLIENT_KEY = "/secrets/nomad-key.pem"
        # RECONCILER_HTTP__TOKEN_FILE = "/secrets/http-token"
        # RECONCILER_POSEIDON__TOKEN_FILE = "/secrets/poseidon-token"
      }

      # With Vault: {{ with secret "kv/data/poseidon-reconciler" }}{{ .Data.data.token }}{{ end }}
      template {
        destination = "/secrets/nomad-token"
        data        = "{{ with nomadVar \"nomad/jobs/poseidon-reconciler\" }}{{ .token }}{{ end }}"
        # The container's user is not root, and the directory is the task's own.
        perms = "0444"
        # The file is read again at each reconnect, and a token that is revoked ends the connection.
        change_mode = "noop"
      }

      # What else is secret, from the same variable: `nomad var put -force …` with all of it, files as ca=@ca.pem. Leave out of
      # for_each, and above, what you have not.
      # dynamic "template" {
      #   for_each = {
      #     ca = "nomad-ca.pem"
      #     cert = "nomad-cert.pem"
      #     key = "nomad-key.pem"
      #     http_token = "http-token"
      #     poseidon_token = "poseidon-token"
      #   }
      #   content {
      #     destination = "/secrets/${template.value}"
      #     data = "{{ with nomadVar \"nomad/jobs/poseidon-reconciler\" }}{{ .${template.key} }}{{ end }}"
      #     perms = "0444"
      #     change_mode = "restart"
      #   }
      # }

      template {
        destination   = "/local/reconciler.yaml"
        data          = file(var.configuration)
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }

      resources {
        cpu        = 200
        memory     = 256
        memory_max = 512
      }
    }
  }
}
