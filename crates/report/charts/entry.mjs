// What report.js uses of Observable Plot; the rest is shaken out of the bundle.
export { areaY, axisX, axisY, dot, gridX, gridY, line, link, plot, rect, ruleX, text } from "@observablehq/plot";
