/** The pypi section of the configuration: where Python packages come from. */
import { PYPI_URL } from "@backplane/supply";
import { z } from "zod";

const LOCAL = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** pip sends requests without encryption only to this machine. */
const UrlSchema = z.string().refine((text) => {
  const url = URL.canParse(text) ? new URL(text) : null;
  return url?.protocol === "https:" || (url?.protocol === "http:" && LOCAL.test(url.hostname));
}, "must be a URL such as https://pypi.example.com/simple");

export const PypiSchema = z
  .strictObject({
    /** The index of Python packages, as PEP 503 describes it. */
    index_url: UrlSchema.default(PYPI_URL),
    /** Other hosts that serve the files of the index, such as https://files.example.com. */
    file_origins: z
      .array(UrlSchema.refine((text) => new URL(text).origin === text, "must be a scheme and a host"))
      .default([]),
  })
  .prefault({});
