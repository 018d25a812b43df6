/** Maps the name of a system error to the reason why an artifact cannot be read. */
import type { ArtifactFault } from "@backplane/contract";

const FAULTS: Record<string, ArtifactFault> = {
  ENOENT: "missing",
  ENOTDIR: "missing",
  EISDIR: "not_a_file",
  ENXIO: "not_a_file",
  ELOOP: "link",
  EMLINK: "link",
  EPERM: "setuid",
  EFBIG: "too_large",
  EINVAL: "bad_path",
  ENAMETOOLONG: "bad_path",
};

export function faultOf(error_name: string | undefined): ArtifactFault {
  return FAULTS[error_name ?? ""] ?? "unreadable";
}
