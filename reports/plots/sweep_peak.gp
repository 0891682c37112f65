if (ARGC != 2) { print "usage: gnuplot -d -c sweep_peak.gp DATA.csv OUT.svg|.png"; exit status 2 }

# The series of a sweep side by side at their peaks: output, price of a million output tokens,
# tokens of KV that the pool holds; lying bars that share their order, for the first value across
# at which anything ran. Columns by name: series (0, 1, ...), label, across_place, output_tok_s,
# usd_per_mtok (may be empty), kv_tokens.
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1. A price that is not known is NaN.
array names[64]
array value_1[64]
array value_2[64]
array value_3[64]
bars = 0
add(label, a, b, c) = (bars = bars + 1, names[bars] = label, value_1[bars] = a, value_2[bars] = b, \
                       value_3[bars] = c, bars)
stats ARG1 using (column("across_place")) name "ACROSS" nooutput
if (!exists("ACROSS_min")) exit status 1
stats ARG1 using (column("across_place") == ACROSS_min ? \
                  add(strcol("label"), column("output_tok_s"), column("usd_per_mtok"), \
                      column("kv_tokens")) : NaN) name "BARS" nooutput
if (!exists("BARS_max") || bars == 0) exit status 1

# Fixed width; the height grows with the number of bars only. All vertical places are in pixels.
height = 110 + 26 * bars
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  title_font = ",17" # in points; the other terminal counts pixels
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,10" background rgb "white"
} else {
  title_font = ",22"
  set terminal svg size 1000,height fixed noenhanced font "DejaVu Sans,13" background rgb "white"
}
set output ARG2
y(pixels) = (pixels + 0.0) / height
x(pixels) = pixels / 1000.0

unset border
unset tics
unset key
set yrange [bars + 0.5 : 0.5]
set tmargin at screen y(height - 82)
set bmargin at screen y(20)
bar(k, i) = k == 1 ? value_1[i] : k == 2 ? value_2[i] : value_3[i]
price(v) = sprintf(v < 1 ? "$%.3f" : "$%.2f", v)
tokens(v) = v >= 1e6 ? sprintf("%.2f M", v / 1e6) : sprintf("%.0f k", v / 1e3)
said(k, i) = k == 1 ? sprintf("%.0f", value_1[i]) : k == 2 ? price(value_2[i]) : tokens(value_3[i])
known(v) = v == v && v > 0
array titles[3] = ["output at the peak (tok/s)", "a million output tokens", "tokens of KV held"]
array fills[3] = ["#0072B2", "#D55E00", "#009E73"]
array lefts[3] = [290, 540, 770]

set multiplot
set label 1 "What each gives at its peak" at screen 0.5, y(height - 26) center font title_font
do for [k = 1:3] {
  most = 0
  do for [i = 1:bars] { if (known(bar(k, i))) { most = bar(k, i) > most ? bar(k, i) : most } }
  set lmargin at screen x(lefts[k])
  set rmargin at screen x(lefts[k] + 150)
  set xrange [0 : most > 0 ? most : 1]
  set label 2 titles[k] at graph 0, screen y(height - 66) left tc rgb "#404040"
  do for [i = 1:bars] {
    if (k == 1) { set label 10 + i names[i] at screen x(20), first i left }
    if (known(bar(k, i))) {
      set object i rectangle from 0, i - 0.34 to bar(k, i), i + 0.34 fc rgb fills[k] fs solid \
          noborder
      set label 100 + i said(k, i) at bar(k, i), i left offset 0.6,0
    } else {
      set label 100 + i "not known" at 0, i left tc rgb "#707070"
    }
  }
  plot NaN
  unset label
  unset object
}
unset multiplot
