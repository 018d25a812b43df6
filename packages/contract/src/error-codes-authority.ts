/** Refusals of work that was allowed to begin: whoever asked for it may no longer. */
import { refusal } from "./error-spec.ts";

export const AUTHORITY_CODES = {
  "authority.key_revoked": refusal(
    403,
    "The key that asked for this was revoked.",
    "Nothing further was started; ask again with a key that is valid.",
  ),
  "authority.key_expired": refusal(
    403,
    "The key that asked for this has expired.",
    "Nothing further was started; ask again with a key that is valid.",
  ),
  "authority.role_disabled": refusal(
    403,
    "The role of whoever asked for this is disabled by the policy.",
    "An admin enables it again: `backplane policy set roles.ROLE.disabled false`.",
  ),
  "authority.project_archived": refusal(
    403,
    "The project is archived: nothing starts or goes on in it.",
    "An admin opens it again: `backplane policy set archived false --level project`.",
  ),
} as const;
