/**
 * References to container images as `docker run` accepts them: `mcp/time`, `ghcr.io/acme/server:1.2`, `name@sha256:…`.
 */
import { BackplaneError } from "@backplane/contract";
import type { OciReference } from "../oci/reference.ts";
import { DOCKER_HUB, DOCKER_HUB_NAMES, parseReference } from "../oci/reference.ts";

export function parseImageReference(text: string): OciReference {
  const plain = text.replace(/^(?:docker|oci):\/\//, "");
  const slash = plain.indexOf("/");
  const first_part = slash < 0 ? "" : plain.slice(0, slash);
  const has_registry = first_part === "localhost" || /[.:]/.test(first_part);
  const host = has_registry && !DOCKER_HUB_NAMES.includes(first_part) ? first_part : DOCKER_HUB;
  const path = has_registry ? plain.slice(slash + 1) : plain;
  const full = host === DOCKER_HUB && !path.includes("/") ? `library/${path}` : path;
  const complete = /[:@]/.test(full) ? full : `${full}:latest`;
  try {
    return parseReference(`oci://${host}/${complete}`);
  } catch (error) {
    throw new BackplaneError(
      "plugin.source_invalid",
      `${JSON.stringify(text.slice(0, 80))} is not the name of a container image.`,
      {
        fix: "Write image:NAME[:TAG], such as image:mcp/time or image:ghcr.io/acme/server:1.2.",
        cause: error,
      },
    );
  }
}

/** Formats a reference as people write it: Docker Hub, the default registry, is omitted. */
export function formatImageReference({ registry, repository, tag, digest }: OciReference): string {
  const name = registry === DOCKER_HUB ? repository.replace(/^library\//, "") : `${registry}/${repository}`;
  return `${name}${tag === null ? "" : `:${tag}`}${digest === null ? "" : `@${digest}`}`;
}
