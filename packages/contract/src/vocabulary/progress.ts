/** The steps of long work, about in the order in which an installation takes them. The rows are stored in `store`. */
export const PROGRESS_STEPS = [
  "read",
  "resolve",
  "download",
  "build",
  "verify",
  "unpack",
  "check",
  "store",
  "prepare",
  "launch",
  "initialize",
] as const;
export type ProgressStep = (typeof PROGRESS_STEPS)[number];

export const PROGRESS_UNITS = ["bytes", "files", "packages"] as const;
