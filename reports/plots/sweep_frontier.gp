if (ARGC != 2) { print "usage: gnuplot -d -c sweep_frontier.gp DATA.csv OUT"; exit status 2 }

# How many requests fit at once, over their context: lines from memory alone, dots the largest load
# that was run without wanting more memory than there is. Columns by name: series (0, 1, ...),
# label, across_amount, across_title, requests_fit, requests_ran (may be empty).
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1. The pass also collects the names.
array names[64]
do for [i = 1:64] { names[i] = "" } # a series without rows has no line in the legend
title_across = ""
stats ARG1 using (names[int(column("series")) + 1] = strcol("label"), \
                  title_across = strcol("across_title"), column("series")) name "SERIES" nooutput
if (!exists("SERIES_max")) exit status 1
if (SERIES_max > 63) { print "at most 64 series fit in one figure"; exit status 3 }
stats ARG1 using (column("across_amount")) name "ACROSS" nooutput
stats ARG1 using (column("requests_fit")) name "FIT" nooutput
series = int(SERIES_max) + 1

# Fixed width; the height grows with the legend only.
height = 500 + 24 * series
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  title_font = ",17" # in points; the other terminal counts pixels
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,11" background rgb "white"
} else {
  title_font = ",22"
  set terminal svg size 1000,height fixed noenhanced font "DejaVu Sans,14" background rgb "white"
}
set output ARG2
y(pixels) = (pixels + 0.0) / height

array colours[8] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", \
                    "#8C6D00"]
colour(i) = colours[(i - 1) % 8 + 1]
dashes(i) = (i - 1) / 8 + 1
array filled[8] = [7, 5, 9, 13, 7, 5, 9, 13] # marks apart as well as colours
mark(i) = filled[(i - 1) % 8 + 1]
of(i, value) = int(column("series")) == i - 1 ? value : NaN
set border 3 lc rgb "#595959"
set tics nomirror out tc rgb "#404040"
set grid xtics ytics lc rgb "#d9d9d9" lt 1 lw 1
set label 1 "Where memory ends" at screen 0.5, y(height - 28) center font title_font
set label 2 "requests at once" at graph 0, graph 1 left offset 0.3,0.8
set xlabel title_across offset 0,0.3
set lmargin at screen 0.085
set rmargin at screen 0.965
set tmargin at screen y(height - 84)
set bmargin at screen y(90 + 24 * series)
# A wide range needs a logarithm to be read; a narrow one would have no tick to read it by.
if (ACROSS_min > 0 && ACROSS_max > 4 * ACROSS_min) {
  set logscale x 2
  set xrange [ACROSS_min / 1.15 : ACROSS_max * 1.15]
} else {
  set xrange [0 : ACROSS_max > 0 ? ACROSS_max * 1.05 : 1]
}
if (FIT_min > 0 && FIT_max > 8 * FIT_min) {
  set logscale y 2
  set yrange [FIT_min / 1.6 : FIT_max * 1.5]
} else {
  set yrange [0 : FIT_max > 0 ? FIT_max * 1.12 : 1]
}
set format "%.0f"
set key at screen 0.085, y(34 + 24 * series) left top vertical Left reverse samplen 2 \
    maxrows series + 1 spacing 1.1
# A label of nothing instead of no place: gnuplot 5.4 crashes on labels of which none has a place.
plot for [i = 1:series] ARG1 using (column("across_amount")):(of(i, column("requests_fit"))) \
       with lines lw 2 lc rgb colour(i) dt dashes(i) title names[i], \
     for [i = 1:series] ARG1 using (column("across_amount")):(column("requests_fit")): \
       (of(i, 1) == 1 ? sprintf("%.0f", column("requests_fit")) : "") with labels center \
       offset 0,0.8 \
       tc rgb colour(i) notitle, \
     for [i = 1:series] ARG1 using (column("across_amount")):(of(i, column("requests_ran"))) \
       with points pt mark(i) ps 0.9 lc rgb colour(i) notitle, \
     NaN with points pt 7 ps 0.9 lc rgb "#595959" title "largest load that was run and fitted"
