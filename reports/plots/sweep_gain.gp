if (ARGC != 2) { print "usage: gnuplot -d -c sweep_gain.gp DATA.csv OUT.svg|.png"; exit status 2 }

# What each series gives at its best, against the first one: output over the load with the peak of
# what fits in memory, the price there, and how many requests fit. One row per point. Columns by
# name: title, place (0, 1, ...) of the series, label, load_amount, load_title, output_tok_s,
# oom, peak (0, 1), output_change_percent, usd_per_mtok, cost_change_percent, largest_load,
# requests_fit.
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1. The pass also collects the names and
# the figures of each series' peak.
array names[8]
array peak_load[8]
array peak_output[8]
array more[8]
array usd[8]
array cheaper[8]
array most[8]
array frontier[8]
title = ""
title_load = ""
slot(i) = int(column("place")) + 1
stats ARG1 using (names[slot(0)] = strcol("label"), title_load = strcol("load_title"), \
                  title = strcol("title"), \
                  column("place")) name "SERIES" nooutput
if (!exists("SERIES_max")) exit status 1
if (SERIES_max > 7) { print "at most 8 series fit in this figure"; exit status 3 }
stats ARG1 using (column("peak") == 1 ? ( \
                  peak_load[slot(0)] = column("load_amount"), \
                  peak_output[slot(0)] = column("output_tok_s"), \
                  more[slot(0)] = column("output_change_percent"), \
                  usd[slot(0)] = column("usd_per_mtok"), \
                  cheaper[slot(0)] = column("cost_change_percent"), \
                  most[slot(0)] = column("largest_load"), \
                  frontier[slot(0)] = column("requests_fit"), 1) : NaN) \
      name "PEAK" nooutput
stats ARG1 using (column("output_tok_s")) name "OUTPUT" nooutput
stats ARG1 using (column("load_amount")) name "LOAD" nooutput
series = int(SERIES_max) + 1
if (!(OUTPUT_max > 0)) { print "no point has output"; exit status 3 }

# Long names would run into each other: letters stand for them, and a legend below the title has
# both. Names beyond the width of the figure are shortened there.
longest = 0
do for [i = 1:series] { longest = strlen(names[i]) > longest ? strlen(names[i]) : longest }
lettered = longest > 18
legend = lettered ? 22 * series + 10 : 0
array short[8]
do for [i = 1:series] { short[i] = lettered ? substr("ABCDEFGH", i, i) : names[i] }
wide(name) = strlen(name) > 110 ? substr(name, 1, 109)."…" : name

# Fixed width; the height grows with the series beyond the second, and with the legend.
extra = (series > 2 ? 40 * (series - 2) : 0) + legend
height = 520 + extra
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  title_font = ",17" # in points; the other terminal counts pixels
  big_font = "DejaVu Sans Bold,13"
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,11" background rgb "white"
} else {
  title_font = ",22"
  big_font = "DejaVu Sans,17"
  set terminal svg size 1000,height fixed noenhanced font "DejaVu Sans,14" background rgb "white"
}
set output ARG2
y(pixels) = (pixels + 0.0) / height
x(pixels) = pixels / 1000.0

array colours[8] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", \
                    "#8C6D00"]
array filled[8] = [7, 5, 9, 13, 7, 5, 9, 13] # marks apart as well as colours
array hollow[8] = [6, 4, 8, 12, 6, 4, 8, 12]
of(i, value) = int(column("place")) == i - 1 ? value : NaN
fits(value) = column("oom") == 0 ? value : NaN
whole(v) = int(v + 0.5)
number(v) = v >= 1e9 ? sprintf("%.4g", v) : \
            v >= 1000 ? sprintf("%d,%03d", whole(v) / 1000, whole(v) % 1000) : sprintf("%.0f", v)
signed(value) = sprintf("%+.1f %%", value)

set multiplot
set label 1 title at screen 0.5, y(height - 28) center font title_font
if (lettered) {
  do for [i = 1:series] {
    set label 80 + i short[i].":  ".wide(names[i]) at screen x(76), y(height - 42 - 22 * i) left \
        tc rgb colours[i]
  }
}

# Left: output over the load. What wants more memory than there is is hollow and joined by dashes.
set border 3 lc rgb "#595959"
set tics nomirror out tc rgb "#404040"
set grid ytics lc rgb "#e4e4e4" lt 1 lw 1
set lmargin at screen x(76)
set rmargin at screen x(600)
set tmargin at screen y(height - 92 - legend)
set bmargin at screen y(62)
set label 2 "output tokens per second" at graph 0, graph 1 left offset 0.3,1.0
set xlabel title_load offset 0,0.3
set xrange [0 : LOAD_max > 0 ? LOAD_max * 1.12 : 1]
set yrange [0 : OUTPUT_max * 1.16]
set format y "%.0f"
unset key
do for [i = 1:series] {
  set label 10 + i short[i].": ".number(peak_output[i])." at ".number(peak_load[i]) \
      at peak_load[i], peak_output[i] right offset -0.8,1.1 font big_font tc rgb colours[i]
}
# A label of nothing instead of no place: gnuplot 5.4 crashes on labels of which none has a place.
oom_word(i) = column("oom") != 0 && column("place") == i - 1 ? "out of memory" : ""
plot for [i = 1:series] ARG1 using (of(i, column("load_amount"))):(column("output_tok_s")) \
       with lines lw 1.4 dt 2 lc rgb colours[i], \
     for [i = 1:series] ARG1 using (of(i, fits(column("load_amount")))):(column("output_tok_s")) \
       with linespoints lw 2.4 pt filled[i] ps 1.1 lc rgb colours[i], \
     for [i = 1:series] ARG1 using (column("oom") == 0 ? NaN : of(i, column("load_amount"))): \
       (column("output_tok_s")) with points pt hollow[i] ps 1.3 lw 1.6 lc rgb colours[i], \
     for [i = 1:series] ARG1 using (column("load_amount")):(column("output_tok_s")):(oom_word(i)) \
       with labels right offset 0.5,-1.1 \
       tc rgb colours[i]
unset label
unset xlabel
unset grid

# Right: three small bar charts that share their order, each with the change against the first.
unset border
unset tics
set lmargin at screen x(650)
set rmargin at screen x(970)
block = (height - 110 - legend) / 3.0
known(v) = v == v # what the database does not say is NaN
price(v) = !known(v) ? "not known" : sprintf(v < 1 ? "$%.3f" : "$%.2f", v)
fit(v) = known(v) ? number(v)." fit; " : ""
said(b, i) = b == 1 ? number(peak_output[i])." tok/s" : b == 2 ? price(usd[i]) : \
             fit(frontier[i])."largest run ".number(most[i])
change(b, i) = i == 1 || b == 3 || !known(b == 1 ? more[i] : cheaper[i]) ? "" : \
               signed(b == 1 ? more[i] : cheaper[i])
of_load(i) = known(frontier[i]) ? frontier[i] : most[i]
bar(b, i) = b == 1 ? peak_output[i] : b == 3 ? of_load(i) : known(usd[i]) ? usd[i] : 0
do for [b = 1:3] {
  largest = 0
  do for [i = 1:series] { largest = bar(b, i) > largest ? bar(b, i) : largest }
  top = height - 62 - legend - (b - 1) * block
  set tmargin at screen y(top - 20)
  set bmargin at screen y(top - block + 14)
  set label 20 (b == 1 ? "output at the peak" : b == 2 ? "cost there, a million output tokens" : \
                known(frontier[1]) ? "requests in memory at once" : "load that memory allows") \
      at screen x(650), y(top - 10) left tc rgb "#595959"
  set xrange [0 : largest > 0 ? largest : 1]
  set yrange [series + 0.5 : 0.5]
  do for [i = 1:series] {
    set object 30 + i rectangle from 0, i + 0.14 to bar(b, i), i + 0.42 fc rgb colours[i] \
        fs solid noborder
    set label 40 + i short[i].":  ".said(b, i) at 0, i - 0.14 left tc rgb "black"
    set label 60 + i change(b, i) at largest, i - 0.14 right font big_font tc rgb colours[i]
  }
  plot NaN
  unset object
  unset label
}
unset multiplot
