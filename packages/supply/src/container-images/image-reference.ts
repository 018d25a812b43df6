/**
 * References to container images as `docker run` accepts them: `mcp/time`, `ghcr.io/acme/server:1.2`, `name@sha256:…`.
 */
import { BackplaneError } from "@backplane/contract";
import type { OciReference } from "../oci/reference.ts";
import { DOCKER_HUB, DOCKER_HUB_NAMES, parseReference } from "../oci/reference.ts";

export function parseImageReference(text: string): OciReference {
  const plain = text.replace(/^(?:docker|oci):\/\//, "");
  const slash = plain.indexOf("/");
  const first = slash < 0 ? "" : plain.slice(0, slash);
  const named = first === "localhost" || /[.:]/.test(first);
  const host = named && !DOCKER_HUB_NAMES.includes(first) ? first : DOCKER_HUB;
  const path = named ? plain.slice(slash + 1) : plain;
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

/** As people write it, without the registry of Docker. */
export function formatImageReference({ registry, repository, tag, digest }: OciReference): string {
  const name = registry === DOCKER_HUB ? repository.replace(/^library\//, "") : `${registry}/${repository}`;
  return `${name}${tag === null ? "" : `:${tag}`}${digest === null ? "" : `@${digest}`}`;
}
