/** The steps of long-running work, roughly in the order of an installation. The step `store` writes the rows. */
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
