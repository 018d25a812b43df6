#!/usr/bin/env node
/** `vai-plugin-sign PACKAGE --key FILE [--out FILE]` for release automation: the same as `backplane plugin sign`. */
"use strict";

process.argv.splice(2, 0, "plugin", "sign");
require("./backplane.cjs").launch();
